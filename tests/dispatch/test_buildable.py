"""A variant that would be rejected is not wished for where a smaller one serves in passes."""

from __future__ import annotations

import pytest

from kgen.diagnostics import Diagnostic
from kgen.dispatch.buildable import select_buildable
from kgen.dispatch.model import Bound
from kgen.dispatch.tuning import Tuning
from tests.dispatch.toy import BASE, POLICY


def chosen(compiler, limit, built=(), jit=True, group=16, requested=()):
    """The selection for a group of heads where reuse above `limit` is rejected, and what was asked for."""
    asked = []

    def reject(op, params):
        asked.append(params["reuse"])
        return Diagnostic("K522", "too many registers") if params["reuse"] > limit else None

    facts = {
        "arch": "toy",
        "num_seqs": 2,
        "num_kv_heads": 2,
        "max_seq_len": 64,
        "limit": 64,
        "num_heads": 2 * group,
    }
    names = {**{k: v for k, v in BASE.items() if k not in ("reuse", "partition_size", "arch")}, **facts}
    bound = Bound(names, dict(requested), {}, {}, frozenset(), "cpu")
    kernels = [compiler.make(reuse=reuse) for reuse in built]
    return select_buildable(POLICY, bound, kernels, jit, Tuning(compiler), reject), asked


@pytest.mark.parametrize(("limit", "reuse", "asked"), [(16, 16, 1), (8, 8, 2), (1, 1, 5)])
def test_the_largest_that_is_not_rejected_serves_in_passes(compiler, limit, reuse, asked):
    selection, tried = chosen(compiler, limit)
    assert selection.params["reuse"] == reuse
    assert selection.names["passes"] == 16 // reuse
    assert len(tried) == asked
    assert next(c.want for c in selection.choices if c.param == "reuse") == 16


def test_where_all_are_rejected_the_wish_stands(compiler):
    selection, _ = chosen(compiler, 0)
    assert selection.params["reuse"] == 16


def test_what_is_insisted_on_is_kept(compiler):
    selection, tried = chosen(compiler, 8, requested=[("reuse", 16)])
    assert selection.params["reuse"] == 16
    assert tried == [16]


def test_what_is_built_is_never_doubted(compiler):
    selection, tried = chosen(compiler, 8, built=[16])
    assert selection.params["reuse"] == 16
    assert tried == []
    selection, tried = chosen(compiler, 8, built=[4], jit=False)
    assert (selection.params["reuse"], tried) == (4, [])
