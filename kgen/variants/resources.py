"""What a GPU variant will take of its chip, before any compiler runs.

An operator says it among its derived values, per block and per thread:

    lds_bytes    shared memory of a block, exactly: the build compares it with what was compiled
    registers    vector registers of a thread, estimated: what accumulators, operands and vectors
                 in flight hold at the widest point of the inner loop, and a fixed number for the rest

and the threads of a block in its grid. A combination that exceeds a limit of the target is
rejected with the figures; what is left has an occupancy by the rules of the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kgen.diagnostics import Span
from kgen.manifest import Scalar
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import GridSpec, OpSpec, TargetSpec
from kgen.targets.occupancy import Occupancy, Use, occupancy

LDS, REGISTERS = "lds_bytes", "registers"


@dataclass(frozen=True)
class Resources:
    """The plan of one variant. `registers` None: the operator does not estimate them, and the
    occupancy counts none."""

    threads: int
    lds_bytes: int
    registers: int | None
    occupancy: Occupancy | None


@dataclass(frozen=True)
class Excess:
    """A limit of the target that a plan exceeds: the rule, why, its place and the figures."""

    rule: str
    because: str
    where: Span
    figures: Mapping[str, Scalar]


def plan_resources(op: OpSpec, target: TargetSpec, values: Mapping[str, Scalar]) -> Resources | None:
    """The plan of a combination whose parameters and derived values are `values`; None on a CPU.

    Of several kernels that run one after the other the largest block is held against the limit; the
    occupancy is that of the first.
    Raises KgenError where a value cannot be computed.
    """
    if target.family == "cpu":
        return None
    blocks = [int(evaluate_expr(grid.block, values)) for grid in launched(op, values)]
    threads, first = max(blocks, default=target.wave), next(iter(blocks), target.wave)
    lds_bytes = _planned(op, LDS, values) or 0
    registers = _planned(op, REGISTERS, values)
    use = Use(first, registers or 0, 0, lds_bytes)
    return Resources(threads, lds_bytes, registers, occupancy(target, use))


def excesses(op: OpSpec, target: TargetSpec, plan: Resources) -> Iterator[Excess]:
    """Every limit the plan exceeds."""
    if plan.lds_bytes > target.lds_bytes:
        because = f"a block has at most {target.lds_bytes} bytes of shared memory on {target.name}"
        yield _excess(op, LDS, plan.lds_bytes, "target.lds_bytes", target.lds_bytes, because)
    if plan.registers is not None and target.registers and plan.registers > target.registers:
        because = f"a thread can name at most {target.registers} registers on {target.name}"
        yield _excess(op, REGISTERS, plan.registers, "target.registers", target.registers, because)
    most = target.chip.figures["max_threads"] if target.chip else 0
    if most and plan.threads > most:
        because = f"a block has at most {most} threads on {target.name}"
        yield _excess(op, "block", plan.threads, "target.max_threads", most, because)
    elif plan.occupancy is not None and plan.occupancy.blocks < 1:
        short = ", ".join(plan.occupancy.limited_by)
        because = f"a compute unit of {target.name} cannot hold one block: short of {short}"
        figures: dict[str, Scalar] = {
            "block": plan.threads,
            LDS: plan.lds_bytes,
            REGISTERS: plan.registers or 0,
        }
        yield Excess(f"occupancy >= 1 ({short})", because, op.span, figures)


def launched(op: OpSpec, values: Mapping[str, Scalar]) -> list[GridSpec]:
    """The launches on a GPU of a combination, in order."""
    return [
        grid
        for name, grid in op.grids.items()
        if name.partition("_")[0] == "gpu" and (grid.when is None or evaluate_expr(grid.when, values))
    ]


def _planned(op: OpSpec, name: str, values: Mapping[str, Scalar]) -> int | None:
    if not any(let.name == name for let in op.lets):
        return None
    value = values[name]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _excess(op: OpSpec, name: str, value: int, limit_name: str, limit: int, because: str) -> Excess:
    where = next((let.expr.span for let in op.lets if let.name == name), op.span)
    return Excess(f"{name} <= {limit_name}", because, where, {name: value, limit_name: limit})
