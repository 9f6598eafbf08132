"""KV memory: what a budget holds, and that pages and slots are the same memory in every layout."""

import pytest
import torch

from kgen.layout import Layout, Sizes, TensorOrder, offset
from kgen.runtime import FLOAT8
from kgen.runtime.kvpool import KVPool, KVShape, num_blocks_for
from tests.runtime.samples import refused

BSHD = TensorOrder(("block", "token", "head", "dim"))
BHSD = TensorOrder(("block", "head", "token", "dim"))
TRANSPOSED = TensorOrder(("block", "head", "dim", "token"))
PACKED = TensorOrder(("block", "head", "dim", "token", "inner"), 0)
TOKEN_FIRST = TensorOrder(("token", "block", "head", "dim"))
LAYOUTS = [
    Layout("bshd", BSHD, BSHD),
    Layout("bhsd", BHSD, BHSD),
    Layout("bhsd_vt", BHSD, TRANSPOSED),
    Layout("vllm", PACKED, TRANSPOSED),
    Layout("odd", TOKEN_FIRST, BSHD),
]
SMALL = KVShape(2, 3, 16, torch.float16)


def test_a_13b_model_takes_800_kib_a_token():
    llama = KVShape(40, 40, 128, torch.float16)
    assert llama.token_bytes == 819_200
    assert KVShape(1, 40, 128, torch.float16).token_bytes == 20_480
    total, used = 40 * 2**30, 26 * 2**30
    assert num_blocks_for(llama, 16, total, used, 0.9) == (int(total * 0.9) - used) // (16 * 819_200) == 819


def test_a_budget_counts_the_size_of_the_type():
    budget = {"total_bytes": 2**20, "used_bytes": 0, "part": 0.5}
    half = num_blocks_for(SMALL, 8, **budget)
    assert half == 2**19 // (8 * 2 * 2 * 3 * 16 * 2) == 170
    assert num_blocks_for(KVShape(2, 3, 16, torch.float32), 8, **budget) == 85
    assert num_blocks_for(KVShape(2, 3, 16, torch.float8_e4m3fn), 8, **budget) == 341


def test_a_budget_without_a_single_block_says_so():
    with refused("K702", "0 bytes are left", "takes 3072"):
        num_blocks_for(SMALL, 8, 1000, 500, 0.5)
    with refused("K701", "part of memory"):
        num_blocks_for(SMALL, 8, 1000, 500, 1.5)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_copies_move_whole_pages_in_every_layout(layout):
    pool = KVPool(layout, SMALL, 5, 4)
    sizes = Sizes(5, 3, 4, 16, 2)
    assert pool.num_bytes == sum(t.numel() * 2 for t in [*pool.keys, *pool.values])
    for tensor in [*pool.keys, *pool.values]:
        tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) % 2039)
    before = [tensor.clone() for tensor in [*pool.keys, *pool.values]]
    pool.copy([(1, 3), (3, 0)])  # page 3 is read before it is written
    for old, new, order in zip(
        before, [*pool.keys, *pool.values], [layout.k] * 2 + [layout.v] * 2, strict=True
    ):
        for block, source in enumerate((3, 1, 2, 1, 4)):
            for head, token, dim in [(0, 0, 0), (2, 3, 15), (1, 2, 9)]:
                at = {"head": head, "token": token, "dim": dim}
                assert (
                    new.flatten()[offset(order, sizes, block=block, **at)]
                    == old.flatten()[offset(order, sizes, block=source, **at)]
                )


def test_slots_are_a_view_of_the_pages():
    pool = KVPool(LAYOUTS[0], SMALL, 5, 4)
    keys, _ = pool.slots(1)
    assert keys.shape == (20, 3, 16) and keys.data_ptr() == pool.keys[1].data_ptr()
    keys[4 * 3 + 2, 1, 7] = 5
    assert pool.keys[1][3, 2, 1, 7] == 5


def test_pages_of_one_token_have_slots_in_any_layout_that_keeps_a_head_whole():
    pool = KVPool(LAYOUTS[2], SMALL, 5, 1)
    keys, values = pool.slots(0)
    values[3, 2, 9] = 4
    assert pool.values[0][3, 2, 9, 0] == 4 and keys.shape == values.shape == (5, 3, 16)


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=lambda layout: layout.name)
def test_layouts_without_token_slots_say_so(layout):
    with refused("K701", layout.name, "by token slot"):
        KVPool(layout, SMALL, 5, 4).slots(0)


def test_swapping_copies_between_pools():
    device, host = KVPool(LAYOUTS[1], SMALL, 4, 2), KVPool(LAYOUTS[1], SMALL, 3, 2)
    device.keys[1][2] = 7
    host.copy_from(device, [(2, 0)])
    assert host.keys[1][0].eq(7).all() and host.keys[0][0].eq(0).all()
    device.copy_from(host, [(0, 3)])
    assert device.keys[1][3].eq(7).all()


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_8_bit_pages_are_copied_code_by_code(dtype):
    kv = KVShape(1, 2, 16, dtype)
    device, host = KVPool(LAYOUTS[0], kv, 4, 8), KVPool(LAYOUTS[0], kv, 2, 8)
    assert device.num_bytes == sum(t.numel() for t in [*device.keys, *device.values])
    codes = device.keys[0].view(torch.uint8)
    codes[1] = torch.arange(256).reshape(8, 2, 16)
    device.copy([(1, 3)])
    host.copy_from(device, [(3, 1)])
    assert codes[3].equal(codes[1]) and host.keys[0].view(torch.uint8)[1].equal(codes[1])


def test_pools_that_do_not_fit_and_pages_that_are_not_there_are_refused():
    pool = KVPool(LAYOUTS[0], SMALL, 4, 2)
    with refused("K701", "page 4 does not exist"):
        pool.copy([(0, 4)])
    with refused("K701", "page -1"):
        pool.copy([(-1, 0)])
    with refused("K701", "one layout"):
        pool.copy_from(KVPool(LAYOUTS[1], SMALL, 4, 2), [(0, 0)])
    with refused("K701", "does not say how v lies", "nobody knows"):
        KVPool(Layout("half", BSHD, None, because="nobody knows"), SMALL, 4, 2)
    with refused("K701", "head_dim 12 is no multiple of 8"):
        KVPool(LAYOUTS[3], KVShape(1, 1, 12, torch.float16), 4, 2)
