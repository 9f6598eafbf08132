"""The plan of both products as a kernel needs it: counts, and where each register of a lane lies.

The plans (`kgen.variants.products`) are tables; here they become C++ expressions of `lane` and of
register numbers, the only things about a chip's matrix instruction that a template prints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgen.render.matrix_operands import (
    KeyForm,
    Maker,
    OutForm,
    ValueForm,
    key_form,
    no_form,
    out_form,
    slots_of,
    value_form,
)
from kgen.render.places import Place
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
    share their rows.
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
    key: KeyForm
    chunk_dim: Place  # lane -> first dim of its 16 bytes of K and Q
    moved_from: Place  # operand, e -> tile * elements + element of the scores
    value: ValueForm
    value_dim: Place  # lane -> first dim of its 16 bytes of V
    out: OutForm
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
        raise no_form(plan, "it has no form in registers with 16-byte loads")
    scores, values = _loads(plan, key_vector, value_vector)
    if tiles > 1:
        plan = replace(plan, operands=repeated(plan.operands, tiles))
    one, operands = plan.instruction, plan.operands
    made = Maker(plan)
    produced = one.d if operands.orientation == "S" else one.d.transposed()
    asked = one.a if operands.orientation == "S" else one.b.transposed()
    output = one.d if operands.side == "A" else one.d.transposed()
    if produced.rows != operands.queries or output.rows != operands.queries:
        raise no_form(plan, "a tile spans several row tiles")

    d, lane = one.d.elements, {"lane": one.wave}
    rows, slot_of = slots_of(produced)
    query_rows, query_slot_of = slots_of(asked)
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
            {"step": scores.steps, "e": asked.elements}, lambda step, e: made.dim_at(asked, scores, step, e)
        ),
        key=key_form(plan, scores, made),
        chunk_dim=made.place(lane, lambda at: scores.starts[at]),
        moved_from=made.place(
            {"operand": operands.operands, "e": len(operands.moves[0])},
            lambda o, e: operands.moves[o][e][0] * d + operands.moves[o][e][1],
        ),
        value=value_form(plan, values, made),
        value_dim=made.place(lane, lambda at: values.starts[at]),
        out=out_form(output, values, rows, made),
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
        raise no_form(plan, f"K cannot be read {key_vector or 'so many'} elements at a time")
    if values is None:
        raise no_form(plan, f"V cannot be read {value_vector or 'so many'} elements at a time")
    return scores, values


def _tiles(plan: Products, made: Maker, asked: Fragment, output: Fragment) -> TileForm | None:
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
