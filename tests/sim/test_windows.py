"""Windows on pages: only where a page lies close together and tiles lie in one page."""

import re

import pytest
import torch

from kgen import api, ops, paths
from kgen.diagnostics import KgenError
from kgen.dispatch.gpu import APART, WINDOW
from kgen.render.emit import render
from kgen.variants.matrix import make_variant

ARCH = "sim:gfx942"


def attend(k, v, tokens=20):
    q = torch.ones(1, 1, 64, dtype=torch.float16)
    table, lengths = torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([tokens], dtype=torch.int32)
    return ops.paged_attention(q, k, v, table, lengths, max_seq_len=tokens, arch=ARCH)


@pytest.fixture(scope="module")
def memory():
    """More than a window of f16, of which a few pages are touched."""
    try:
        return torch.empty(16 * (WINDOW // 15) + 4096, dtype=torch.float16)
    except RuntimeError:
        pytest.skip("not enough address space")


def spread(memory, token_stride):
    """Two pages of 16 tokens, so far apart."""
    cache = memory.as_strided((2, 16, 1, 64), (64, token_stride, 64, 1))
    cache.fill_(0.5)
    return cache


def test_a_page_may_span_a_window_and_no_more(memory):
    last = 63
    widest = (WINDOW - 1 - last) // 15 // 8 * 8  # rows start on 16 bytes
    near = torch.full((2, 16, 1, 64), 0.5, dtype=torch.float16)
    close = attend(near, near)
    assert torch.equal(attend(spread(memory, widest), near), close)
    beyond = spread(memory, widest + 8)
    for k, v, name in ((beyond, near, "k_cache"), (near, beyond, "v_cache")):
        with pytest.raises(KgenError, match=f"one page of a head of {name} spans 26843"):
            attend(k, v)


def test_pages_lie_so_far_apart_and_no_more():
    near = torch.full((2, 16, 1, 64), 0.5, dtype=torch.float16)
    try:
        room = torch.empty(APART + 2048, dtype=torch.float16)
    except RuntimeError:
        pytest.skip("not enough address space")
    far = room.as_strided((2, 16, 1, 64), (APART - 8, 64, 64, 1))
    far.fill_(0.5)
    assert torch.equal(attend(far, near), attend(near, near))
    beyond = room.as_strided((2, 16, 1, 64), (APART, 64, 64, 1))
    with pytest.raises(KgenError, match=f"pages of v_cache lie {APART} elements apart"):
        attend(near, beyond)
    one = room.as_strided((1, 16, 1, 64), (APART, 64, 64, 1))
    attend(one, near[:1], tokens=9)  # nothing lies apart


def test_the_limit_is_that_of_the_dialect():
    header = (paths.include_dir() / "kgen" / "gpu" / "types.hpp").read_text()
    (shift,) = re.findall(r"kOutside = 1 << (\d+);", header)
    assert 1 << int(shift) == WINDOW


def source(**changes):
    catalog = api.check()
    params = {"arch": "gfx942", "dtype": "f16", "head_dim": 64, "block_size": 16, "layout": "bshd"}
    params |= {"reuse_kv_times": 1, "partition_size": 0, **changes}
    return render(make_variant(catalog.op("paged_attention"), params, catalog)).text


def test_tiles_that_cross_pages_have_no_window():
    assert ".window(" in source() and ".window(" in source(layout="bhsd")
    assert ".window(" not in source(block_size=1)
