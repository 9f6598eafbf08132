"""Calls of paged_attention for the tuner: the cells of a grid, by each of the kernels that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kgen.bench.contenders import timed
from kgen.bench.decode import check_room, using_threads
from kgen.bench.decode_call import Decode
from kgen.bench.grid import shape_of
from kgen.bench.pool import draw_pool
from kgen.manifest import Scalar
from kgen.spec.benches import BenchCell
from kgen.spec.load import load_catalog
from kgen.variants.model import Variant

OP = "paged_attention"


def params_of(cell: BenchCell) -> Mapping[str, Scalar]:
    """The parameters that a cell fixes."""
    return {
        "dtype": cell.dtype,
        "kv_dtype": cell.kv_dtype or cell.dtype,
        "head_dim": cell.heads.head_dim,
        "block_size": cell.block_size,
        "layout": cell.layout,
    }


def exact_facts(cell: BenchCell) -> Mapping[str, Scalar]:
    """The facts that calls of the cell's class share with it."""
    return {"num_heads": cell.heads.heads, "num_kv_heads": cell.heads.kv_heads}


def ranged_facts(cell: BenchCell) -> Mapping[str, int]:
    """The facts in which a class reaches beyond its cell."""
    return {"num_seqs": cell.workload.batch, "max_seq_len": cell.workload.context}


def measure(
    cell: BenchCell, variants: Sequence[Variant], device: str, options: Mapping[str, Any]
) -> Mapping[str, Sequence[float]]:
    """Seconds of each variant in each round, in turn, by variant name. Raises KgenError: K581 where a result
    is wrong, K586 where memory is short."""
    shape = shape_of(cell, device, options)
    check_room(shape, gathered=False)
    pool = draw_pool(shape, load_catalog().layouts[shape.layout])
    with using_threads(shape.threads or torch.get_num_threads()):
        calls = {variant.name: _call(variant, pool) for variant in variants}
        first, decode = next(iter(calls.items()))
        return timed(decode, first, calls, int(options["rounds"]))


def _call(variant: Variant, pool: Any) -> Decode:
    """The call of one variant, checked."""
    free = {rule.param for rule in variant.op.select}
    forced = {name: value for name, value in variant.params.items() if name in free}
    decode = Decode(pool, forced, variant.target.name)
    decode.check()
    return decode
