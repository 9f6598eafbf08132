"""`kgen bench params`: what block_size and partition_size cost and give, measured.

A larger page wastes more of its last page and needs fewer table entries; a larger partition
makes fewer partial results, so less workspace and a shorter merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from kgen import ops
from kgen.bench import decode
from kgen.bench.decode_call import Decode
from kgen.bench.measure import Contender, alternate, spread
from kgen.bench.pool import Pool, Shape, draw_pool
from kgen.spec.load import load_catalog
from kgen.testing.memory import DTYPES

BLOCK_SIZES = (16, 32, 64, 128)
PARTITION_SIZES = (256, 512)
DEFAULTS: Mapping[str, Any] = {
    "batch": 8,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "context": 4096,
    "dtype": "bf16",
    "layout": "bhsd",
    "threads": None,
    "rounds": 20,
}
DRAWN_LENGTHS = 4096
"""Sequences, of lengths uniform from 1 to the context, over which the waste is averaged."""


@dataclass(frozen=True)
class BlockRow:
    """A block size: mean unused tokens and bytes of one layer a sequence, the part of its pages that
    is unused, table entries a row, and the speed of a decode call."""

    block_size: int
    waste_tokens: float
    waste_bytes: float
    waste_part: float
    entries: int
    seconds: float
    gbps: float


@dataclass(frozen=True)
class PartitionRow:
    """A partition size: parts a row, workspace bytes of the call, its time, and that of a merge of
    as many partial results."""

    partition_size: int
    partitions: int
    workspace_bytes: int
    seconds: float
    combine_seconds: float


@dataclass(frozen=True)
class Params:
    """Both tables."""

    blocks: tuple[BlockRow, ...]
    partitions: tuple[PartitionRow, ...]

    def json(self) -> dict[str, Any]:
        return {
            "block_size": [asdict(row) for row in self.blocks],
            "partition_size": [asdict(row) for row in self.partitions],
        }


def run(args: Mapping[str, Any], progress: decode.Progress = lambda line: None) -> Params:
    """Measure both tables; options as in DEFAULTS. Each table's sizes are timed in turn."""
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    options["threads"] = options["threads"] or torch.get_num_threads()
    with decode.using_threads(options["threads"]):
        progress("block_size " + ", ".join(map(str, BLOCK_SIZES)))
        blocks = _block_rows(options)
        progress("partition_size " + ", ".join(map(str, PARTITION_SIZES)))
        return Params(blocks, _partition_rows(options))


def waste(block_size: int, longest: int) -> float:
    """Mean unused tokens of the last page over lengths uniform from 1 to `longest`."""
    lengths = torch.randint(1, longest + 1, (DRAWN_LENGTHS,), generator=torch.Generator().manual_seed(1))
    return float((-lengths % block_size).double().mean())


def workspace_bytes(shape: Shape, partition_size: int) -> int:
    """Bytes of scratch memory (exp_sums, max_logits and tmp_out) of a call split so."""
    return ops.workspace_size(
        "paged_attention",
        num_seqs=shape.batch,
        num_heads=shape.heads,
        num_kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        block_size=shape.block_size,
        max_seq_len=shape.context,
        dtype=shape.dtype,
        layout=shape.layout,
        partition_size=partition_size,
    )


def _block_rows(options: Mapping[str, Any]) -> tuple[BlockRow, ...]:
    calls: dict[str, Contender] = {}
    shapes = {size: _shape(options, size) for size in BLOCK_SIZES}
    for size, shape in shapes.items():
        calls[str(size)] = _decode_call(_pool(shape), {})
    times = alternate(calls, int(options["rounds"]))
    rows = []
    for size, shape in shapes.items():
        seconds, unused = spread(times[str(size)]).median, waste(size, shape.context)
        token_bytes = 2 * shape.kv_heads * shape.head_dim * DTYPES[shape.dtype].itemsize
        mean = (shape.context + 1) / 2
        rows.append(
            BlockRow(
                block_size=size,
                waste_tokens=unused,
                waste_bytes=unused * token_bytes,
                waste_part=unused / (mean + unused),
                entries=shape.pages,
                seconds=seconds,
                gbps=shape.kv_bytes / seconds / 1e9,
            )
        )
    return tuple(rows)


def _partition_rows(options: Mapping[str, Any]) -> tuple[PartitionRow, ...]:
    shape = _shape(options, BLOCK_SIZES[0])
    pool = _pool(shape)
    calls: dict[str, Contender] = {}
    for size in PARTITION_SIZES:
        calls[f"call {size}"] = _decode_call(pool, {"partition_size": size})
        calls[f"merge {size}"] = _merge_call(shape, -(-shape.context // size))
    times = alternate(calls, int(options["rounds"]))
    return tuple(
        PartitionRow(
            partition_size=size,
            partitions=-(-shape.context // size),
            workspace_bytes=workspace_bytes(shape, size),
            seconds=spread(times[f"call {size}"]).median,
            combine_seconds=spread(times[f"merge {size}"]).median,
        )
        for size in PARTITION_SIZES
    )


def _shape(options: Mapping[str, Any], block_size: int) -> Shape:
    names = ("batch", "heads", "kv_heads", "head_dim", "context", "threads")
    sizes: Mapping[str, Any] = {name: int(options[name]) for name in names}
    return Shape(
        **sizes,
        block_size=block_size,
        layout=options["layout"],
        dtype=options["dtype"],
    )


def _pool(shape: Shape) -> Pool:
    return draw_pool(shape, load_catalog().layouts[shape.layout])


def _decode_call(pool: Pool, forced: Mapping[str, int]) -> Contender:
    call, turn = Decode(pool, forced), pool.rotation()
    call.check()
    return lambda: call(next(turn))


def _merge_call(shape: Shape, parts: int) -> Contender:
    states = torch.randn(shape.batch, parts, shape.heads, shape.head_dim)
    lse = torch.randn(shape.batch, parts, shape.heads)
    return lambda: ops.merge_states(states, lse)
