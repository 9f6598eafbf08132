"""A built kernel looked at: what its compiler said of it, and what its inner loop consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgen.inspect.census import TABLES, WORK, census
from kgen.inspect.code import Function, Instruction
from kgen.inspect.disassemble import disassemble
from kgen.inspect.loops import Loop, find_loops
from kgen.inspect.turn import FAMILIES, Turn, turn_of
from kgen.manifest import Entry, Launch
from kgen.spec.model import TargetSpec
from kgen.targets.occupancy import Occupancy, Use, occupancy


@dataclass(frozen=True)
class LoopReport:
    """The loop that reads and multiplies most: the function it is in, where it starts, and its
    instructions by class. Loops inside it are counted, their instructions are not. `turn`: the way
    round it that is taken most, None where code does not say what it waits for."""

    function: str
    address: int
    instructions: int
    inner: int
    census: Mapping[str, int]
    turn: Turn | None = None


@dataclass(frozen=True)
class KernelReport:
    """One kernel of a launch; on a CPU the whole library. `loop` None: it has no loop."""

    name: str
    instructions: int
    loops: int
    census: Mapping[str, int]
    loop: LoopReport | None


@dataclass(frozen=True)
class Report:
    """A built variant. `occupancy` None on a CPU, or where its target has no rules."""

    entry: Entry
    occupancy: Occupancy | None
    kernels: tuple[KernelReport, ...]


def inspect(entry: Entry, artefact: Path, target: TargetSpec) -> Report:
    """Look at a built kernel. Raises KgenError (K413) where it cannot be disassembled."""
    functions = disassemble(entry, artefact)
    if entry.kind in ("hip", "cuda"):
        by_name = {function.name: function for function in functions}
        cycles = matrix_cycles(target)
        kernels = tuple(
            kernel_report(name, [by_name[name]], target.family, cycles)
            for name in symbols(entry)
            if name in by_name
        )
        return Report(entry, real_occupancy(entry, target), kernels)
    return Report(entry, None, (kernel_report(entry.symbol, functions, "cpu"),))


def kernel_report(
    name: str, functions: Iterable[Function], family: str, cycles: Mapping[str, int] | None = None
) -> KernelReport:
    """The census of some functions together, and of the loop among them that works most. `cycles`: of
    matrix instructions, by mnemonic."""
    functions = list(functions)
    every = [instruction for function in functions for instruction in function.instructions]
    loops = [(function, loop) for function in functions for loop in find_loops(function)]
    best = max(loops, key=lambda found: _work(found[1].own, family), default=None)
    report = _loop(*best, family, cycles or {}) if best else None
    return KernelReport(name, len(every), len(loops), census(every, family), report)


def matrix_cycles(target: TargetSpec) -> Mapping[str, int]:
    """The cycles of the target's matrix instructions that are known, by mnemonic."""
    instructions = target.chip.instructions.values() if target.chip else ()
    return {one.asm: one.cycles for one in instructions if one.cycles}


def real_use(entry: Entry) -> Use | None:
    """What a block of a compiled GPU kernel takes, of several the first, as its compiler says; None
    where it did not."""
    found = entry.resources
    registers = found.get("vgpr", found.get("registers"))
    if registers is None or entry.launch is None:
        return None
    lds = int(found.get("lds_bytes", 0)) + entry.launch.dynamic_lds
    return Use(entry.launch.block, int(registers), int(found.get("sgpr", 0)), lds)


def real_occupancy(entry: Entry, target: TargetSpec) -> Occupancy | None:
    """The occupancy of a compiled kernel by the rules of its target."""
    use = real_use(entry)
    return occupancy(target, use) if use else None


def launches(entry: Entry) -> list[Launch]:
    """The launches of a GPU kernel in order."""
    found, launch = [], entry.launch
    while launch is not None:
        found.append(launch)
        launch = launch.then
    return found


def symbols(entry: Entry) -> list[str]:
    """The kernels a launch runs, in order."""
    return list(dict.fromkeys(launch.symbol or entry.symbol for launch in launches(entry))) or [entry.symbol]


def columns(reports: Iterable[Report]) -> list[str]:
    """The classes that any loop of these has, in the order of their table."""
    reports = list(reports)
    seen = {name for r in reports for k in r.kernels for name in (k.loop.census if k.loop else k.census)}
    order = dict.fromkeys(name for table in TABLES.values() for name, _ in table)
    return [name for name in (*order, "other") if name in seen]


def _loop(function: Function, loop: Loop, family: str, cycles: Mapping[str, int]) -> LoopReport:
    turn = turn_of(function, loop, cycles) if family in FAMILIES else None
    return LoopReport(function.name, loop.header, len(loop.own), loop.inner, census(loop.own, family), turn)


def _work(instructions: Iterable[Instruction], family: str) -> int:
    counts = census(instructions, family)
    return sum(counts.get(name, 0) for name in WORK)
