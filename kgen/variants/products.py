"""The two products of attention on one target: instruction, operand plan and load plans together.

Of the instructions for a dtype the one whose operand plan costs least serves both products. A
target without an instruction for the dtype has no plan, and its kernels multiply in vector registers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from kgen.spec.chip import INPUTS
from kgen.spec.model import TargetSpec
from kgen.targets.instructions import instruction, instructions
from kgen.targets.matrix import MatrixInstruction
from kgen.variants.loads import ScoreLoads, ValueLoads, plan_score_loads, plan_value_loads
from kgen.variants.operand import OperandPlan, cost, plan_operands, turned_plan
from kgen.variants.tiles import TileLoads, plan_tiles

VECTOR_BYTES = 16
"""The widest load of a lane."""


@dataclass(frozen=True)
class Products:
    """S = Q K^T and O = P V by one instruction. `scores` and `values` are None where 16 bytes of a
    row do not deal out evenly to the instruction's lanes; `tiles` is how targets that
    read tiles of shared memory bring K and V."""

    instruction: MatrixInstruction
    operands: OperandPlan
    scores: ScoreLoads | None
    values: ValueLoads | None
    tiles: tuple[TileLoads, TileLoads] | None = None


def plan_products(target: TargetSpec, dtype: str, name: str = "", *, turned: bool = False) -> Products | None:
    """The best plan for a dtype, or the one that uses the instruction `name`; None where the target
    has no instruction for the dtype. `turned`: the plan in which a wave turns P, with fewer query rows.
    Raises KgenError: K205 for an unknown name, K219 for a faulty map."""
    if name:
        return products_of(instruction(target, name))
    fitting = [one for one in instructions(target).values() if one.dtype == dtype]
    if turned:
        plans = [plan for one in fitting if (plan := turned_products(one)) is not None]
        return min(plans, key=lambda plan: cost(plan.operands), default=None)
    return min((products_of(one) for one in fitting), key=lambda plan: cost(plan.operands), default=None)


@functools.lru_cache(maxsize=256)
def products_of(one: MatrixInstruction) -> Products:
    """The plan of an instruction that serves both products."""
    operands = plan_operands(one)
    if operands.form != "registers":
        return Products(one, operands, None, None)
    loads = _loads(one, operands)
    return Products(one, operands, *loads, plan_tiles(one, operands) if INPUTS[one.dtype] == 2 else None)


@functools.lru_cache(maxsize=256)
def turned_products(one: MatrixInstruction) -> Products | None:
    """The plan of an instruction in which P is turned on its way; None where it has none."""
    operands = turned_plan(one) if INPUTS[one.dtype] == 2 else None
    return None if operands is None else Products(one, operands, *_loads(one, operands))


def _loads(one: MatrixInstruction, operands: OperandPlan) -> tuple[ScoreLoads | None, ValueLoads | None]:
    vector = VECTOR_BYTES // INPUTS[one.dtype]
    return plan_score_loads(one, operands, vector), plan_value_loads(one, operands, vector)


def plans_of(one: MatrixInstruction) -> str:
    """The plans of an instruction in words: for many query rows and, where a wave can turn P, for few."""
    turned = turned_products(one)
    return "\n".join(map(describe, [products_of(one), *([turned] if turned else [])]))


def describe(plan: Products) -> str:
    """A plan in words and figures, for a person."""
    one, operands = plan.instruction, plan.operands
    lines = [f"{one.name}: {one.m} x {one.n} x {one.k}, {one.dtype}, {one.wave} lanes"]
    if operands.form == "lds":
        return "\n".join([*lines, "  P is laid out anew through LDS: no register form exists"])
    product = "S = Q K^T" if operands.orientation == "S" else "S^T = K Q^T"
    way = "is turned in registers" if operands.form == "turned" else "stays in registers"
    lines.append(
        f"  P {way}: {product}, then P enters O as operand {operands.side}; "
        f"{operands.queries} query rows, {len(operands.tokens)} tokens"
    )
    filled = f"{operands.accumulators} accumulators fill {operands.operands} operands"
    lines.append(
        f"  {filled}; row statistics {'lie' if operands.aligned else 'do not lie'} with the rows of O"
    )
    order = "in order" if operands.identity else " ".join(map(str, operands.tokens))
    lines.append(f"  summed tokens: {order}")
    for index, moves in enumerate(operands.moves):
        shown = " ".join(f"{tile}.{element}" for tile, element in moves)
        lines.append(f"  operand {index} takes accumulator.element {shown}")
    lines += [_scores(plan.scores), _values(plan.values)]
    return "\n".join(lines)


def _scores(loads: ScoreLoads | None) -> str:
    if loads is None:
        return "  Q, K: no 16-byte form"
    first = " ".join(map(str, loads.dims[0]))
    shape = f"{loads.vector} dims a load feed {loads.steps} steps over {loads.chunk} dims"
    return f"  Q, K: {shape}; step 0: {first}"


def _values(loads: ValueLoads | None) -> str:
    if loads is None:
        return "  V: no 16-byte form"
    first = " ".join(map(str, loads.dims[0]))
    return (
        f"  V: {loads.vector} dims a load feed {loads.tiles} tiles over {loads.chunk} dims; tile 0: {first}"
    )
