"""The peer through a module that stands for FlashInfer and works out from its arguments what is asked."""

import dataclasses
import sys
import types
from typing import ClassVar

import pytest
import torch

from kgen import reference
from kgen.bench.flashinfer_peer import FLASHINFER, page_lists
from kgen.bench.peers import Absent, Work
from kgen.bench.pool import Shape, draw_pool
from kgen.spec.load import load_catalog

LAYOUTS = load_catalog().layouts
SHAPE = Shape(
    batch=3,
    heads=4,
    kv_heads=2,
    head_dim=32,
    context=70,
    block_size=16,
    layout="bshd",
    dtype="bf16",
    threads=2,
)


class Wrapper:
    """BatchDecodeWithPagedKVCacheWrapper as FlashInfer documents it."""

    made: ClassVar[list["Wrapper"]] = []

    def __init__(self, workspace, order, *, use_cuda_graph, use_tensor_cores, **buffers):
        assert int(workspace.abs().max()) == 0 and use_cuda_graph
        self.order, self.tensor_cores, self.buffers = order, use_tensor_cores, buffers
        self.made.append(self)

    def plan(self, indptr, indices, last, heads, kv_heads, head_dim, page, *, sm_scale, **dtypes):
        sizes = [
            len(self.buffers[f"paged_kv_{name}_buffer"]) for name in ("indptr", "indices", "last_page_len")
        ]
        assert sizes == [len(indptr), len(indices), len(last)]
        assert dtypes == {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
        assert (heads, kv_heads, head_dim, page) == (4, 2, 32, 16)
        self.indptr, self.indices, self.last, self.scale = indptr.tolist(), indices, last.tolist(), sm_scale

    def run(self, q, caches, *, out):
        k, v = ((one if self.order == "NHD" else one.transpose(1, 2)) for one in caches)
        for row, last in enumerate(self.last):
            pages = self.indices[self.indptr[row] : self.indptr[row + 1]].long()
            length = (len(pages) - 1) * 16 + last
            keys, values = (one[pages].flatten(0, 1)[:length] for one in (k, v))
            exact, _ = reference.attention(q[row : row + 1], keys, values, self.scale, mask=None)
            out[row] = exact[0].to(out.dtype)


@pytest.fixture
def installed(monkeypatch):
    module = types.ModuleType("flashinfer")
    module.BatchDecodeWithPagedKVCacheWrapper = Wrapper
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    Wrapper.made.clear()


def work_of(**changes):
    shape = dataclasses.replace(SHAPE, **changes)
    return Work(draw_pool(shape, LAYOUTS[shape.layout], cache_bytes=1), 0.3)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("name", FLASHINFER)
def test_it_is_asked_for_the_work_of_each_table(installed, name, layout, ragged):
    work = work_of(layout=layout, ragged=ragged)
    call = FLASHINFER[name](work)
    assert len(Wrapper.made) == len(work.pool.tables)
    assert {made.tensor_cores for made in Wrapper.made} == {name == "flashinfer_tc"}
    for number, table in enumerate(work.pool.tables):
        pool = work.pool
        want, _ = reference.paged_attention(
            pool.q, pool.k_cache, pool.v_cache, table, pool.seq_lens, 0.3, pool.layout
        )
        torch.testing.assert_close(call(number).double(), want, rtol=1e-2, atol=1e-2)
    assert len(Wrapper.made) == len(work.pool.tables)  # nothing is planned in a call


def test_lists_of_rows_that_end_with_their_page():
    work = work_of(context=32)
    starts, ids, last = page_lists(work.pool, work.pool.tables[0])
    assert starts.tolist() == [0, 2, 4, 6] and last.tolist() == [16, 16, 16]
    assert torch.equal(ids, work.pool.tables[0].flatten())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"dtype": "f32"}, "it has no f32"), ({"layout": "bhsd_vt"}, "it has no layout bhsd_vt")],
)
def test_what_it_cannot_do_is_said(installed, changes, reason):
    with pytest.raises(Absent, match=reason):
        FLASHINFER["flashinfer"](work_of(**changes))


def test_where_it_is_not_installed_the_reason_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(Absent, match="flashinfer cannot be imported"):
        FLASHINFER["flashinfer_tc"](work_of())
