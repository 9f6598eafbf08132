"""The operand plan: how the probabilities of one matrix product become an operand of the next.

Attention multiplies twice: S = Q K^T, then O = P V with P computed from S element by element. The
plan searches, from the lane maps alone, for a form in which the registers a lane holds after
the first product are the very registers it must supply to the second, so that P never moves:

* orientation: `S` (rows are queries) or `St` = K Q^T (rows are tokens);
* side: P enters the second product as operand `A` (O = P V) or P^T as operand `B` (O^T = V^T P^T);
* composition: several accumulators of the first product fill several operands of the second;
* a permutation of the summed index: position k of the second product stands for token
  `tokens[k]`, and the rows of V are fetched in that order.

Where no such form exists the plan says `lds`: P is laid out anew through shared memory.

Where a wave can turn tiles of 8 x 8, two elements of 16 bits a lane, `turned_plan` has a form in which P is
turned on its way: S^T = K Q^T and O^T = V^T P^T, so that query rows lie along n, the shorter side of an
instruction whose tile is not square. Fewer rows then are padding.
What it does not do: choose tile sizes, count registers, print code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kgen.targets.matrix import Fragment, MatrixInstruction

Register = tuple[int, int]  # (tile, element)

TURNED_LANES = 32
"""A wave that turns tiles has so many lanes."""


@dataclass(frozen=True)
class OperandPlan:
    """One way to chain the two products.

    `accumulators` x first-product tiles are held when `operands` second-product operands are
    formed; `moves[o][e]` is the accumulator register that is element e of operand o; `tokens[k]`
    the token of the tile at summed position k. `aligned`: a lane's row statistics cover every
    row of O it accumulates. `form` is `registers`, `turned` (moves start from where turned elements lie)
    or `lds` (then moves and tokens are empty).
    """

    form: str
    orientation: str
    side: str
    queries: int
    accumulators: int
    operands: int
    tokens: tuple[int, ...]
    moves: tuple[tuple[Register, ...], ...]
    aligned: bool

    @property
    def identity(self) -> bool:
        """The summed index needs no permutation."""
        return self.tokens == tuple(range(len(self.tokens)))


def plan_operands(instruction: MatrixInstruction) -> OperandPlan:
    """The best plan for an instruction that serves both products."""
    return min(candidates(instruction), key=cost)


def candidates(instruction: MatrixInstruction) -> Iterator[OperandPlan]:
    """Every register form, at most one per orientation and side, and the LDS form last."""
    for orientation in ("S", "St"):
        for side in ("A", "B"):
            plan = _register_form(instruction, orientation, side)
            if plan is not None:
                yield plan
    yield _lds_form(instruction)


def turned_plan(instruction: MatrixInstruction) -> OperandPlan | None:
    """The form in which a wave turns the tiles of P; None where there is none."""
    return _register_form(instruction, "St", "B", turned=True)


def cost(plan: OperandPlan) -> tuple[object, ...]:
    """Registers before LDS, statistics in place, few query rows to pad, no permutation, S before St."""
    return (
        plan.form != "registers",
        not plan.aligned,
        plan.queries,
        plan.accumulators,
        not plan.identity,
        plan.orientation != "S",
        plan.side != "A",
    )


def repeated(plan: OperandPlan, times: int) -> OperandPlan:
    """The plan over so many tiles of tokens, one behind the other."""
    accumulators, tokens = plan.accumulators, len(plan.tokens)
    return replace(
        plan,
        accumulators=times * accumulators,
        operands=times * plan.operands,
        tokens=tuple(token + tokens * n for n in range(times) for token in plan.tokens),
        moves=tuple(
            tuple((tile + accumulators * n, element) for tile, element in moves)
            for n in range(times)
            for moves in plan.moves
        ),
    )


def _produced(instruction: MatrixInstruction, orientation: str) -> Fragment:
    """The first product's result as (query, token)."""
    return instruction.d if orientation == "S" else instruction.d.transposed()


def _consumed(instruction: MatrixInstruction, side: str) -> Fragment:
    """The second product's probability operand as (query, summed index)."""
    return instruction.a if side == "A" else instruction.b.transposed()


def _output(instruction: MatrixInstruction, side: str) -> Fragment:
    """The second product's result as (query, dim)."""
    return instruction.d if side == "A" else instruction.d.transposed()


def _register_form(
    instruction: MatrixInstruction, orientation: str, side: str, turned: bool = False
) -> OperandPlan | None:
    produced = _produced(instruction, orientation)
    if turned and (produced.wave != TURNED_LANES or produced.elements % 2):
        return None
    source = tiled(_turned(produced) if turned else produced, *_composition(instruction, orientation, side))
    sink = tiled(_consumed(instruction, side), *_composition(instruction, orientation, side))
    matched = _match(source, sink)
    if matched is None:
        return None
    moves, tokens = matched
    held = _consumed(instruction, side).elements
    operands = len(sink.cells[0]) // held
    return OperandPlan(
        form="turned" if turned else "registers",
        orientation=orientation,
        side=side,
        queries=sink.rows,
        accumulators=len(source.cells[0]) // instruction.d.elements,
        operands=operands,
        tokens=tokens,
        moves=tuple(
            tuple(divmod(moves[o * held + e], instruction.d.elements) for e in range(held))
            for o in range(operands)
        ),
        aligned=_aligned(produced, _output(instruction, side)),
    )


def _turned(one: Fragment) -> Fragment:
    """The cells a lane has after tiles were turned. Of a tile lane l holds columns 2 (l % 4) and one more
    of row l / 4, a pair of elements, and receives those rows of that column."""
    return Fragment(
        one.rows,
        one.cols,
        tuple(
            tuple(
                one.cells[(2 * (lane % 4) + e % 2) * 4 + lane // 8][e // 2 * 2 + lane // 4 % 2]
                for e in range(one.elements)
            )
            for lane in range(TURNED_LANES)
        ),
    )


def _lds_form(instruction: MatrixInstruction) -> OperandPlan:
    return OperandPlan("lds", "S", "A", instruction.m, 1, 1, (), (), aligned=True)


def _composition(instruction: MatrixInstruction, orientation: str, side: str) -> tuple[int, int]:
    """The (queries, tokens) both fragments tile evenly: least common multiples of their extents."""
    source, sink = _produced(instruction, orientation), _consumed(instruction, side)
    return math.lcm(source.rows, sink.rows), math.lcm(source.cols, sink.cols)


def tiled(one: Fragment, rows: int, cols: int) -> Fragment:
    """A fragment repeated over rows x cols, tiles in row-major order, registers concatenated."""
    origins = [(r, c) for r in range(0, rows, one.rows) for c in range(0, cols, one.cols)]
    cells = tuple(tuple((r0 + r, c0 + c) for r0, c0 in origins for r, c in lane) for lane in one.cells)
    return Fragment(rows, cols, cells)


def _match(source: Fragment, sink: Fragment) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Assign a source register to each sink register, the same one in every lane.

    Needs equal query rows in every lane, and one token for each summed position whichever
    lane supplies it. Backtracks over sink registers, trying the identity first."""
    if source.wave != sink.wave or source.elements != sink.elements:
        return None
    options = [
        [s for s in _identity_first(sink, source, k) if _same_rows(source, s, sink, k)]
        for k in range(sink.elements)
    ]
    chosen: list[int] = []
    token_of: dict[int, int] = {}
    if not _assign(source, sink, options, chosen, token_of):
        return None
    return tuple(chosen), tuple(token_of[k] for k in range(sink.cols))


def _assign(
    source: Fragment, sink: Fragment, options: list[list[int]], chosen: list[int], token_of: dict[int, int]
) -> bool:
    position = len(chosen)
    if position == sink.elements:
        return len(set(token_of.values())) == sink.cols
    for register in options[position]:
        if register in chosen:
            continue
        added = _implied(source, register, sink, position, token_of)
        if added is None:
            continue
        token_of.update(added)
        chosen.append(register)
        if _assign(source, sink, options, chosen, token_of):
            return True
        chosen.pop()
        for k in added:
            del token_of[k]
    return False


def _implied(
    source: Fragment, register: int, sink: Fragment, position: int, token_of: dict[int, int]
) -> dict[int, int] | None:
    """The tokens this choice gives to summed positions; None where it contradicts an earlier one."""
    added: dict[int, int] = {}
    owner = {token: k for k, token in token_of.items()}
    for held, needed in zip(source.cells, sink.cells, strict=True):
        token, k = held[register][1], needed[position][1]
        if token_of.get(k, added.get(k, token)) != token or owner.get(token, k) != k:
            return None
        if k not in token_of:
            added[k] = token
            owner[token] = k
    return added


def _same_rows(source: Fragment, register: int, sink: Fragment, position: int) -> bool:
    return all(
        held[register][0] == needed[position][0]
        for held, needed in zip(source.cells, sink.cells, strict=True)
    )


def _identity_first(sink: Fragment, source: Fragment, position: int) -> list[int]:
    """Source registers, those whose cells already agree with the sink's first."""
    agree = [
        all(held[s] == needed[position] for held, needed in zip(source.cells, sink.cells, strict=True))
        for s in range(source.elements)
    ]
    return sorted(range(source.elements), key=lambda s: (not agree[s], s))


def _aligned(scores: Fragment, output: Fragment) -> bool:
    """Every lane's rows of O are rows of S it also holds (up to the period of the smaller tile)."""
    return all(
        {row for row, _ in out} <= {row for row, _ in held}
        for held, out in zip(scores.cells, output.cells, strict=True)
    )
