"""The plan of both products as a kernel needs it: counts, and where each register of a lane lies.

The plans (`kgen.variants.products`) are tables; here they become C++ expressions of `lane` and of
register numbers, the only things about a chip's matrix instruction that a template prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kgen.diagnostics import Diagnostic, KgenError
from kgen.render.places import Place, place
from kgen.targets.matrix import Fragment, MatrixInstruction
from kgen.variants.loads import (
    ScoreLoads,
    ValueLoads,
    key_fragment,
    plan_score_loads,
    plan_value_loads,
    value_fragment,
)
from kgen.variants.operand import OperandPlan, repeated
from kgen.variants.products import Products

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class TileForm:
    """K and V read in tiles of shared memory. A read of K feeds `outputs` tiles of scores with `depth` dims
    of the sum; one of V feeds `outputs` tiles of output, of `columns` dims each."""

    outputs: int
    depth: int
    columns: int
    query_dim: Place  # lane, e -> dim of the sum
    key_row: Place  # lane -> token of the row that the lane names
    key_start: Place  # lane -> its first dim
    value_row: Place  # lane, operand -> token
    value_start: Place  # lane -> first dim
    out_dim: Place  # lane, e -> dim of a tile of output


@dataclass(frozen=True)
class MatrixForm:
    """A tile is `queries` query rows and `tokens` tokens. A lane has `slots` rows of it.

    Scores: `score_tiles` accumulators; register e is of row slot `score_slot(e)`, token
    `score_token(lane, tile, e)`. The lanes that differ in the bits `shared_from` <= bit < `shared_to`
    share their rows. Output: register e of a tile is of row slot `out_slot(e)` and column group
    `out_column(lane, e)`.
    """

    instruction: MatrixInstruction
    operands: OperandPlan
    scores: ScoreLoads
    values: ValueLoads
    slots: int
    shared_from: int
    shared_to: int
    query_slots: int
    score_row: Place  # lane, slot -> query row
    score_slot: Place  # e -> slot
    score_token: Place  # lane, tile, e -> token
    query_row: Place  # lane, slot -> query row
    query_slot: Place  # e -> slot of the operand's rows
    query_at: Place  # step, e -> element of the 16 bytes loaded
    key_token: Place  # lane, tile -> token
    chunk_dim: Place  # lane -> first dim of its 16 bytes of K and Q
    moved_from: Place  # operand, e -> tile * elements + element of the scores
    value_token: Place  # lane, operand, e -> token
    value_dim: Place  # lane -> first dim of its 16 bytes of V
    out_slot: Place  # e -> slot
    out_dim: Place  # lane, e -> first of the dims that the tiles of a chunk hold
    tiles: TileForm | None = None

    @property
    def query_elements(self) -> int:
        one = self.instruction
        return (one.a if self.operands.orientation == "S" else one.b).elements

    @property
    def key_elements(self) -> int:
        return key_fragment(self.instruction, self.operands).elements

    @property
    def value_elements(self) -> int:
        return value_fragment(self.instruction, self.operands).elements

    @property
    def weight_elements(self) -> int:
        one = self.instruction
        return (one.a if self.operands.side == "A" else one.b).elements

    @property
    def out_elements(self) -> int:
        return self.instruction.d.elements


def matrix_form(
    plan: Products | None, *, key_vector: int = 0, value_vector: int = 0, tiles: int = 1
) -> MatrixForm:
    """`key_vector`, `value_vector`: elements of K (and Q) and of V that a lane reads at once, where not 16
    bytes. `tiles`: of the plan's tokens, so many one behind the other.

    Raises KgenError (K336) where a plan has no form in registers with loads of that width."""
    if plan is None or plan.scores is None or plan.values is None:
        raise _no_form(plan, "it has no form in registers with 16-byte loads")
    scores, values = _loads(plan, key_vector, value_vector)
    if tiles > 1:
        plan = replace(plan, operands=repeated(plan.operands, tiles))
    one, operands = plan.instruction, plan.operands
    made = _Maker(plan)
    produced = one.d if operands.orientation == "S" else one.d.transposed()
    asked = one.a if operands.orientation == "S" else one.b.transposed()
    output = one.d if operands.side == "A" else one.d.transposed()
    key = key_fragment(one, operands)
    if produced.rows != operands.queries or output.rows != operands.queries:
        raise _no_form(plan, "a tile spans several row tiles")

    d, lane = one.d.elements, {"lane": one.wave}
    rows, slot_of = _slots(produced)
    out_slots = made.same_rows(output, rows)
    query_rows, query_slot_of = _slots(asked)
    shares = made.shared_lanes(rows)
    return MatrixForm(
        instruction=one,
        operands=operands,
        scores=scores,
        values=values,
        slots=len(rows),
        shared_from=shares[0],
        shared_to=shares[1],
        query_slots=len(query_rows),
        score_row=made.place({**lane, "slot": len(rows)}, lambda at, slot: rows[slot][at]),
        score_slot=made.place({"e": d}, lambda e: slot_of[e]),
        score_token=made.place(
            {**lane, "tile": operands.accumulators, "e": d},
            lambda at, tile, e: tile * produced.cols + produced.cells[at][e][1],
        ),
        query_row=made.place({**lane, "slot": len(query_rows)}, lambda at, slot: query_rows[slot][at]),
        query_slot=made.place({"e": asked.elements}, lambda e: query_slot_of[e]),
        query_at=made.place(
            {"step": scores.steps, "e": asked.elements}, lambda step, e: made.query_at(asked, scores, step, e)
        ),
        key_token=made.place(
            {**lane, "tile": operands.accumulators}, lambda at, tile: tile * key.rows + key.cells[at][0][0]
        ),
        chunk_dim=made.place(lane, lambda at: scores.starts[at]),
        moved_from=made.place(
            {"operand": operands.operands, "e": len(operands.moves[0])},
            lambda o, e: operands.moves[o][e][0] * d + operands.moves[o][e][1],
        ),
        value_token=_value_token(plan, made),
        value_dim=made.place(lane, lambda at: values.starts[at]),
        out_slot=made.place({"e": d}, lambda e: out_slots[e]),
        out_dim=made.place({**lane, "e": d}, lambda at, e: output.cells[at][e][1] * values.vector),
        tiles=_tiles(plan, made, asked, output),
    )


def _loads(plan: Products, key_vector: int, value_vector: int) -> tuple[ScoreLoads, ValueLoads]:
    """The loads of a plan, or those of other widths."""
    one, operands, scores, values = plan.instruction, plan.operands, plan.scores, plan.values
    if key_vector:
        scores = plan_score_loads(one, operands, key_vector)
    if value_vector:
        values = plan_value_loads(one, operands, value_vector)
    if scores is None:
        raise _no_form(plan, f"K cannot be read {key_vector or 'so many'} elements at a time")
    if values is None:
        raise _no_form(plan, f"V cannot be read {value_vector or 'so many'} elements at a time")
    return scores, values


def _value_token(plan: Products, made: _Maker) -> Place:
    operands, value = plan.operands, value_fragment(plan.instruction, plan.operands)
    extents = {"lane": plan.instruction.wave, "operand": operands.operands, "e": value.elements}
    return made.place(extents, lambda at, o, e: operands.tokens[o * value.rows + value.cells[at][e][0]])


def _tiles(plan: Products, made: _Maker, asked: Fragment, output: Fragment) -> TileForm | None:
    if plan.tiles is None:
        return None
    keys, values = plan.tiles
    lane = {"lane": plan.instruction.wave}
    return TileForm(
        outputs=keys.outputs,
        depth=asked.cols,
        columns=output.cols,
        query_dim=made.place({**lane, "e": asked.elements}, lambda at, e: asked.cells[at][e][1]),
        key_row=made.place(lane, lambda at: keys.tokens[0][at]),
        key_start=made.place(lane, lambda at: keys.dims[at]),
        value_row=made.place({**lane, "operand": len(values.tokens)}, lambda at, o: values.tokens[o][at]),
        value_start=made.place(lane, lambda at: values.dims[at]),
        out_dim=made.place({**lane, "e": output.elements}, lambda at, e: output.cells[at][e][1]),
    )


def _slots(fragment: Fragment) -> tuple[Rows, tuple[int, ...]]:
    """The distinct rows a lane holds, each as a table over lanes, and which of them each element is of."""
    tables = [tuple(lane[e][0] for lane in fragment.cells) for e in range(fragment.elements)]
    rows = tuple(dict.fromkeys(tables))
    return rows, tuple(rows.index(table) for table in tables)


class _Maker:
    """Places of one plan; what is no sum over bits, or differs from lane to lane, is a fault."""

    def __init__(self, plan: Products) -> None:
        self._plan = plan

    def place(self, extents: dict[str, int], value: Callable[..., int]) -> Place:
        found = place(extents, value)
        if found is None:
            raise _no_form(self._plan, f"its places over {', '.join(extents)} are no sums over bits")
        return found

    def same_rows(self, output: Fragment, rows: Rows) -> tuple[int, ...]:
        """For each element of the output the slot whose row it is of, in every lane."""
        tables = [tuple(lane[e][0] for lane in output.cells) for e in range(output.elements)]
        if any(table not in rows for table in tables):
            raise _no_form(self._plan, "row statistics do not lie with the rows of the output")
        return tuple(rows.index(table) for table in tables)

    def shared_lanes(self, rows: Rows) -> tuple[int, int]:
        """The range of lane bits, as powers of two, in which lanes may differ and share every row."""
        wave = len(rows[0])
        bits = [1 << n for n in range(wave.bit_length() - 1)]
        free = [
            bit for bit in bits if all(row[lane] == row[lane ^ bit] for row in rows for lane in range(wave))
        ]
        if free != [bit for bit in bits if free and free[0] <= bit <= free[-1]]:
            raise _no_form(self._plan, "the lanes that share a row are not neighbours")
        return (free[0], free[-1] * 2) if free else (1, 1)

    def query_at(self, asked: Fragment, scores: ScoreLoads, step: int, e: int) -> int:
        """The element of a lane's 16 bytes of Q that element `e` is at a step."""
        places = {
            scores.dims[step][cells[e][1]] - start
            for cells, start in zip(asked.cells, scores.starts, strict=True)
        }
        if len(places) != 1 or not 0 <= min(places) < scores.vector:
            raise _no_form(self._plan, "Q and K do not share their 16-byte loads")
        return places.pop()


def _no_form(plan: Products | None, why: str) -> KgenError:
    name = plan.instruction.name if plan else "this target"
    return KgenError(Diagnostic("K336", f"the products by {name} cannot be printed: {why}"))
