"""A turn of the loop of an AMD or DCU kernel: the way round taken most, and what is under way meanwhile.

Loads are answered in the order in which they were asked for, and `s_waitcnt vmcnt(N)` waits until N of
them are left: so how many are under way at each instruction can be counted, turn after turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgen.inspect.census import census, classify
from kgen.inspect.code import Function, Instruction
from kgen.inspect.loops import Loop, way_round
from kgen.inspect.operands import uses

FAMILIES = ("amd", "dcu")
"""Families of targets whose code says what it waits for."""

_FAMILY = FAMILIES[0]
_WORK = ("matrix", "load_16", "load_narrow", "scalar_load")
_COUNTED = re.compile(r"(global|buffer|flat|scratch)_(load|store|atomic)")
_WAIT = re.compile(r"s_waitcnt .*?vmcnt\((\d+)\)")
_SETTLED = 4  # turns after which counts repeat: more than any loop asks ahead
_CYCLES = {"exp2": 16}
_ISSUE = 4  # cycles that other instructions take a wave of 64 on 16 lanes


@dataclass(frozen=True)
class Wait:
    """A wait for loads: `asked` are under way when it comes, and at most `left` when it is over."""

    address: int
    asked: int
    left: int


@dataclass(frozen=True)
class Turn:
    """One way round a loop.

    `loads`: how many loads are under way at each of the instructions, and `kept` when the turn ends.
    `address`: how many instructions of each class, loads apart, have a part in where loads find memory.
    `cycles`: of the instructions one after another, waits left out; None where those of its matrix
    instructions are not known.
    """

    instructions: tuple[Instruction, ...]
    census: Mapping[str, int]
    waits: tuple[Wait, ...]
    loads: tuple[int, ...]
    kept: int
    address: Mapping[str, int]
    cycles: int | None

    @property
    def matrix_loads(self) -> tuple[int, ...]:
        """How many loads are under way at each matrix instruction."""
        pairs = zip(self.instructions, self.loads, strict=True)
        return tuple(loads for one, loads in pairs if classify(one.text, _FAMILY) == "matrix")


def turn_of(function: Function, loop: Loop, matrix_cycles: Mapping[str, int]) -> Turn | None:
    """The turn of a loop: the shortest way round that passes all of its loads and matrix instructions;
    None where each passes a loop inside it. `matrix_cycles`: by mnemonic."""
    way = way_round(function, loop, lambda text: classify(text, _FAMILY) in _WORK)
    if not way:
        return None
    waits, loads, kept = _under_way(way)
    return Turn(way, census(way, _FAMILY), waits, loads, kept, _feeding(way), _cycles(way, matrix_cycles))


def _under_way(way: Sequence[Instruction]) -> tuple[tuple[Wait, ...], tuple[int, ...], int]:
    """What is waited for, what is under way at each instruction, and at the end, once turns repeat."""
    asked, waits, loads = 0, list[Wait](), list[int]()
    for _ in range(_SETTLED):
        waits, loads = [], []
        for instruction in way:
            if wait := _WAIT.match(instruction.text):
                left = min(asked, int(wait[1]))
                waits.append(Wait(instruction.address, asked, left))
                asked = left
            elif _COUNTED.match(instruction.text):
                asked += 1
            loads.append(asked)
    return tuple(waits), tuple(loads), asked


def _feeding(way: Sequence[Instruction]) -> Mapping[str, int]:
    """The instructions that addresses of loads are computed by, traced back through two turns."""
    feeding: set[int] = set()
    wanted: set[str] = set()
    for place in reversed(range(2 * len(way))):
        used = uses(way[place % len(way)].text)
        if used.address:
            wanted -= used.writes
            wanted |= used.address if place >= len(way) else set()
        elif used.writes & wanted:
            wanted -= used.writes
            wanted |= used.reads
            feeding.add(place % len(way))
    return Counter(classify(way[place].text, _FAMILY) for place in sorted(feeding))


def _cycles(way: Sequence[Instruction], matrix_cycles: Mapping[str, int]) -> int | None:
    total = 0
    for instruction in way:
        kind = classify(instruction.text, _FAMILY)
        name = instruction.mnemonic.removesuffix("_e64")
        cycles = matrix_cycles.get(name, 0) if kind == "matrix" else _CYCLES.get(kind, _ISSUE)
        if not cycles:
            return None
        total += cycles
    return total
