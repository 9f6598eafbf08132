"""The matrix instructions of a target, tabulated from the lane maps of its spec.

A map is a bijection between the (lane, element) pairs of a wave and the cells of an operand, or
it is a fault (K219) that names the cells.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kgen.diagnostics import Collector, Diagnostic, KgenError, choice_hint
from kgen.spec.chip import OPERANDS, InstructionSpec, OperandSpec
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import TargetSpec
from kgen.targets.matrix import Cell, Fragment, MatrixInstruction, fragment


def instructions(target: TargetSpec) -> Mapping[str, MatrixInstruction]:
    """Every matrix instruction of a target, by name. Raises KgenError (K219) for a faulty map."""
    specs = target.chip.instructions if target.chip else {}
    return {name: _tabulate(spec, target.wave) for name, spec in specs.items()}


def instruction(target: TargetSpec, name: str) -> MatrixInstruction:
    """One matrix instruction. Raises KgenError: K205 where there is none of that name, K219."""
    specs = target.chip.instructions if target.chip else {}
    if name not in specs:
        message = f"{target.name} has no matrix instruction '{name}'"
        hint = choice_hint(name, list(specs)) if specs else f"{target.name} has no matrix instructions"
        raise KgenError(Diagnostic("K205", message, None, hint))
    return _tabulate(specs[name], target.wave)


def check_instructions(targets: Mapping[str, TargetSpec], found: Collector) -> None:
    """Report every faulty lane map; one that several targets inherit once."""
    told: set[tuple[object, ...]] = set()
    for target in targets.values():
        for spec in target.chip.instructions.values() if target.chip else ():
            try:
                _tabulate(spec, target.wave)
            except KgenError as error:
                for fault in error.diagnostics:
                    if (fault.span, fault.message) not in told:
                        told.add((fault.span, fault.message))
                        found.extend([fault])


@functools.lru_cache(maxsize=256)
def _tabulate(spec: InstructionSpec, wave: int) -> MatrixInstruction:
    extents = {"a": (spec.m, spec.k), "b": (spec.k, spec.n), "d": (spec.m, spec.n)}
    found = Collector()
    tables: dict[str, Fragment] = {}
    for name, operand in spec.operands.items():
        try:
            tables[name] = _fragment(operand, *extents[name], wave)
        except KgenError as error:
            found.extend(error.diagnostics)
            continue
        for fault in tables[name].faults():
            axes = ", ".join(OPERANDS[name])
            message = f"the map of operand '{name}' of {spec.name} is no bijection: ({axes}) {fault}"
            found.add("K219", message, operand.span)
    found.check()
    return MatrixInstruction(
        spec.name,
        spec.dtype,
        tables["a"],
        tables["b"],
        tables["d"],
        builtins=spec.builtins,
        tail=spec.tail,
        asm=spec.asm,
    )


def _fragment(operand: OperandSpec, rows: int, cols: int, wave: int) -> Fragment:
    def cell(lane: int, e: int) -> Cell:
        place = {"lane": lane, "e": e}
        return int(evaluate_expr(operand.row, place)), int(evaluate_expr(operand.col, place))

    return fragment(wave, rows * cols // wave, rows, cols, cell)
