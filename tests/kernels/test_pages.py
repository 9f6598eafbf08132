"""Cache writes and page copies, below dispatch."""

import pytest
import torch
from torch import Tensor

from kgen.manifest import ERRORS
from tests.kernels.harness import DTYPES, Kernel, cache_words, in_order, kernel, tensor

Answer = tuple[int, list[int]]
Pairs = list[tuple[int, int]]
LAYOUTS = ["bshd", "bhsd", "bhsd_vt", "vllm"]


def write(
    one: Kernel, new: Tensor, caches: tuple[Tensor, Tensor], slots: list[int], threads: int = 1
) -> Answer:
    """Write new [2, tokens, heads, dim] (key and value) to the slots of two caches."""
    layout = one.variant.op.layouts[str(one.variant.params["layout"])]
    mapping = torch.tensor(slots, dtype=torch.int64)
    words = {
        **tensor("key", new[0], "token", "head", "dim"),
        **tensor("value", new[1], "token", "head", "dim"),
        **cache_words("k_cache", caches[0], layout.k),
        **cache_words("v_cache", caches[1], layout.v),
        "slot_mapping": mapping.data_ptr(),
        "num_tokens": len(slots),
        "num_kv_heads": new.shape[2],
        "num_blocks": caches[0].shape[layout.k.axes.index("block")],
    }
    return one.call(words, threads)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_writes_every_slot_and_nothing_else(layout: str, dtype: str) -> None:
    one = kernel("reshape_and_cache", dtype=dtype, head_dim=40, block_size=16, layout=layout)
    orders = one.variant.op.layouts[layout]
    pages = torch.randn(2, 5, 3, 16, 40).to(DTYPES[dtype])
    new = torch.randn(2, 400, 3, 40).to(DTYPES[dtype])
    slots = torch.randperm(80)[:60].tolist() + [-1] * 340
    caches = (in_order(pages[0], orders.k), in_order(pages[1], orders.v))
    assert write(one, new, caches, slots, threads=3)[0] == 0
    for token, slot in enumerate(slots[:60]):
        pages[:, slot // 16, :, slot % 16] = new[:, token]
    assert torch.equal(caches[0], in_order(pages[0], orders.k))
    assert torch.equal(caches[1], in_order(pages[1], orders.v))


def test_the_last_of_equal_slots_stands() -> None:
    one = kernel("reshape_and_cache", dtype="f32", head_dim=40, block_size=16, layout="bshd")
    caches = (torch.zeros(2, 16, 3, 40), torch.zeros(2, 16, 3, 40))
    new = torch.randn(2, 900, 3, 40)
    assert write(one, new, caches, [7, 20, 7] * 300, threads=4)[0] == 0
    assert torch.equal(caches[0][0, 7], new[0, 899]) and torch.equal(caches[1][1, 4], new[1, 898])


@pytest.mark.parametrize("slot", [-2, 80, 2**40])
def test_a_slot_out_of_range(slot: int) -> None:
    one = kernel("reshape_and_cache", dtype="f32", head_dim=40, block_size=16, layout="bshd")
    caches = (torch.zeros(5, 16, 3, 40), torch.zeros(5, 16, 3, 40))
    code, error = write(one, torch.randn(2, 4, 3, 40), caches, [0, -1, 3, slot])
    assert (code, error) == (ERRORS["slot"], [ERRORS["slot"], 3, 80, slot])
    assert not caches[0].any() and not caches[1].any()


def copy(cache: Tensor, pairs: Pairs, threads: int = 1) -> Answer:
    one = kernel("copy_blocks")
    mapping = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    words = {
        **tensor("cache", cache, "block", "byte"),
        **tensor("block_mapping", mapping, "pair", "side"),
        "num_blocks": cache.shape[0],
        "page_bytes": cache.shape[1],
        "num_pairs": len(pairs),
        "slices": 1,
    }
    return one.call(words, threads)


def swap(source: Tensor, cache: Tensor, pairs: list[tuple[int, int]], threads: int = 1) -> Answer:
    one = kernel("swap_blocks")
    mapping = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    words = {
        **tensor("source", source, "block", "byte"),
        **tensor("destination", cache, "block", "byte"),
        **tensor("block_mapping", mapping, "pair", "side"),
        "num_source_blocks": source.shape[0],
        "num_blocks": cache.shape[0],
        "page_bytes": cache.shape[1],
        "num_pairs": len(pairs),
        "slices": 1,
    }
    return one.call(words, threads)


def random_bytes(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def test_copies_pages_cut_among_threads() -> None:
    wide = random_bytes(9, 500_000)
    cache, before = wide[:, :300_001], wide.clone()
    assert copy(cache, [(0, 3), (0, 4), (8, 1), (5, 5)], threads=5)[0] == 0
    before[[3, 4, 1], :300_001] = before[[0, 0, 8], :300_001]
    assert torch.equal(wide, before)
    assert copy(cache, [])[0] == 0


def test_swaps_pages_between_tensors() -> None:
    source, cache = random_bytes(4, 1280), random_bytes(9, 1280)
    expected = cache.clone()
    expected[[8, 2]] = source[[1, 3]]
    assert swap(source, cache, [(1, 8), (3, 2)])[0] == 0
    assert torch.equal(cache, expected)


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([(0, 3), (1, 3)], [1, 0, 3]),  # one destination twice
        ([(0, 3), (3, 4)], [0, 1, 3]),  # a destination that is read
        ([(3, 4), (0, 3)], [1, 0, 3]),
        ([(3, 3), (3, 4)], [0, 1, 3]),
    ],
)
def test_copies_whose_order_would_matter(pairs: Pairs, error: list[int]) -> None:
    cache = random_bytes(9, 64)
    before = cache.clone()
    assert copy(cache, pairs) == (ERRORS["overlap"], [ERRORS["overlap"], *error])
    assert torch.equal(cache, before)


def test_swaps_whose_order_would_matter() -> None:
    source, cache = random_bytes(4, 64), random_bytes(9, 64)
    before = cache.clone()
    assert swap(source, cache, [(0, 3), (1, 3)]) == (ERRORS["overlap"], [ERRORS["overlap"], 1, 0, 3])
    assert torch.equal(cache, before)
    assert swap(source, cache, [(0, 3), (3, 4)])[0] == 0  # another tensor's page 3
    assert swap(cache, cache, [(0, 3), (3, 4)])[0] == ERRORS["overlap"]


@pytest.mark.parametrize(("pair", "side"), [((-1, 0), 0), ((9, 0), 0), ((0, -1), 1), ((0, 9), 1)])
def test_a_page_out_of_range(pair: tuple[int, int], side: int) -> None:
    cache = random_bytes(9, 64)
    before = cache.clone()
    assert copy(cache, [(1, 2), pair]) == (ERRORS["block_id"], [ERRORS["block_id"], 1, side, pair[side]])
    assert torch.equal(cache, before)
