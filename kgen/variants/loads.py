"""How K, Q and V reach their operand registers 16 bytes at a time.

A matrix instruction wants, of each lane, a few elements of one row: fewer than a 16-byte load brings.
Both products leave one index free to be renumbered, and the plan uses that freedom:

* first product (summed over head_dim): several steps of the instruction share a chunk of
  dims, dealt out so that the dims a lane needs over those steps lie side by side in memory.
  K and Q are permuted alike, so the sum does not change;
* second product (dims are output columns): several column tiles share a chunk, dealt out so that
  a lane's columns over those tiles lie side by side; O comes out permuted and is stored the
  same way.

What it does not do: order the loads in time, or choose how many tokens a tile has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen.targets.matrix import Fragment, MatrixInstruction
from kgen.variants.operand import OperandPlan

Share = tuple[int, ...]
"""The indices of a product that a lane has."""


@dataclass(frozen=True)
class ScoreLoads:
    """Dims of the first product. Step s, summed position k takes dim `dims[s][k]` of its chunk
    of `steps * k` dims; a lane's vector starts at dim `starts[lane]` and holds `vector` elements,
    `vector // steps` for each step."""

    vector: int
    steps: int
    dims: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]

    @property
    def chunk(self) -> int:
        return self.steps * len(self.dims[0])


@dataclass(frozen=True)
class ValueLoads:
    """Dims of the second product. Column c of tile j is dim `dims[j][c]` of its chunk of
    `tiles * columns` dims; a lane's vector starts at dim `starts[lane]`, `vector // tiles` elements
    a tile."""

    vector: int
    tiles: int
    dims: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]

    @property
    def chunk(self) -> int:
        return self.tiles * len(self.dims[0])


def key_fragment(instruction: MatrixInstruction, plan: OperandPlan) -> Fragment:
    """The operand that holds K, as (token, position in the sum over dims)."""
    return instruction.b.transposed() if plan.orientation == "S" else instruction.a


def value_fragment(instruction: MatrixInstruction, plan: OperandPlan) -> Fragment:
    """The operand that holds V, as (position in the sum over tokens, dim)."""
    return instruction.b if plan.side == "A" else instruction.a.transposed()


def plan_score_loads(instruction: MatrixInstruction, plan: OperandPlan, vector: int) -> ScoreLoads | None:
    """Dims of the first product for loads of `vector` elements; None where no form exists:
    a lane holds different dims of its tokens, or lanes divide the sum unevenly."""
    key = key_fragment(instruction, plan)
    held = [_same_positions(lane) for lane in key.cells]
    shares = sorted({positions for positions in held if positions is not None})
    dims = None if None in held else _dealt(shares, key.cols, vector)
    if dims is None:
        return None
    starts = tuple(shares.index(positions) * vector for positions in held if positions is not None)
    return ScoreLoads(vector, len(dims), dims, starts)


def plan_value_loads(instruction: MatrixInstruction, plan: OperandPlan, vector: int) -> ValueLoads | None:
    """Dims of the second product for loads of `vector` elements of one token; None where lanes
    divide the columns of V unevenly."""
    value = value_fragment(instruction, plan)
    held = [tuple(dict.fromkeys(col for _, col in lane)) for lane in value.cells]
    shares = list(dict.fromkeys(held))
    dims = _dealt(shares, value.cols, vector)
    if dims is None:
        return None
    return ValueLoads(vector, len(dims), dims, tuple(shares.index(share) * vector for share in held))


def _dealt(shares: Sequence[Share], count: int, vector: int) -> tuple[tuple[int, ...], ...] | None:
    """Dims for several products, by product and index: lanes with share i take `vector` dims, from
    i * vector on, as many at each product as they have indices of it. None where the shares are no even
    division of the `count` indices, or their size none of `vector`."""
    width = len(shares[0]) if shares else 0
    even = sorted(index for share in shares for index in share) == list(range(count))
    if not even or any(len(share) != width for share in shares) or vector % width:
        return None
    dims = [[0] * count for _ in range(vector // width)]
    for number, share in enumerate(shares):
        for product, row in enumerate(dims):
            for place, index in enumerate(share):
                row[index] = number * vector + product * width + place
    return tuple(map(tuple, dims))


def _same_positions(lane: tuple[tuple[int, int], ...]) -> tuple[int, ...] | None:
    """The summed positions a lane holds of each of its rows, in register order."""
    rows: dict[int, list[int]] = {}
    for row, k in lane:
        rows.setdefault(row, []).append(k)
    first, *others = rows.values()
    return tuple(first) if all(other == first for other in others) else None
