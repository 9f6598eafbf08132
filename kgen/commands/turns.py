"""A turn of a kernel's loop in words, in JSON, line by line, and as a row of a table: for `kgen inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgen.commands.common import aligned
from kgen.diagnostics import Diagnostic, KgenError

if TYPE_CHECKING:
    from kgen.inspect.report import KernelReport
    from kgen.inspect.turn import Turn

HEADS = ["kernel", "turn", "matrix", "loads", "at products", "at the end", "waits leave", "VALU", "SALU",
         "exp2", "lane", "lds", "for addresses", "cycles"]  # fmt: skip


def turn_json(turn: Turn) -> Mapping[str, Any]:
    """A turn as plain fields."""
    return {
        "instructions": len(turn.instructions),
        "census": dict(turn.census),
        "loads_at_products": [min(turn.matrix_loads), max(turn.matrix_loads)] if turn.matrix_loads else None,
        "loads_at_the_end": turn.kept,
        "waits": [{"address": wait.address, "asked": wait.asked, "left": wait.left} for wait in turn.waits],
        "address": dict(turn.address),
        "cycles": turn.cycles,
    }


def print_turn(turn: Turn) -> None:
    """What a report of one kernel says of it."""
    cycles = "" if turn.cycles is None else f", {turn.cycles} cycles one after another"
    print(f"  a turn of it: {len(turn.instructions)} instructions{cycles}")
    products = f"{_range(turn)} at products, " if turn.matrix_loads else ""
    print(f"    loads under way: {products}{turn.kept} when it ends; waits leave {_waits(turn)}")
    print(f"    for addresses of loads: {_address(turn)}")


def print_lines(name: str, turn: Turn) -> None:
    """Its instructions, beside each how many loads are under way."""
    print(f"{name}: loads under way, address, instruction")
    for instruction, loads in zip(turn.instructions, turn.loads, strict=True):
        print(f"{loads:4} {instruction.address:#8x}  {instruction.text}")


def print_turns(kernels: Sequence[KernelReport]) -> None:
    """One row a kernel that has a turn. Raises KgenError (K415) where none has."""
    rows = [_row(kernel.name, kernel.loop.turn) for kernel in kernels if kernel.loop and kernel.loop.turn]
    if not rows:
        message = "turns are told of loops of AMD and DCU kernels, whose code says what it waits for"
        raise KgenError(Diagnostic("K415", message, hint="leave --loop out for a census"))
    print(aligned(HEADS, rows))
    print("\nloads under way at products and when a turn ends; what each wait for them leaves under way")


def _row(name: str, turn: Turn) -> list[str]:
    def count(*classes: str) -> str:
        return str(sum(turn.census.get(one, 0) for one in classes))

    cycles = "-" if turn.cycles is None else str(turn.cycles)
    counts = [count("matrix"), count("load_16", "load_narrow"), _range(turn), str(turn.kept), _waits(turn)]
    others = [count("vector", "address"), count("scalar"), count("exp2"), count("lane"), count("lds")]
    return [name, str(len(turn.instructions)), *counts, *others, _address(turn), cycles]


def _range(turn: Turn) -> str:
    least, most = min(turn.matrix_loads, default=0), max(turn.matrix_loads, default=0)
    return str(least) if least == most else f"{least} to {most}"


def _waits(turn: Turn) -> str:
    return " ".join(str(wait.left) for wait in turn.waits) or "-"


def _address(turn: Turn) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(turn.address.items())) or "none"
