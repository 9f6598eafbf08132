"""`kgen inspect`: what a compiled kernel takes, and what its inner loop consists of."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.commands.common import add_json, aligned, print_json
from kgen.commands.turns import print_lines, print_turn, print_turns, turn_json
from kgen.diagnostics import Diagnostic, KgenError, choice_hint, nearest

if TYPE_CHECKING:
    from kgen.inspect.report import KernelReport, Report
    from kgen.manifest import Entry

SUMMARY = "show what a built kernel takes, and an instruction census of its inner loop"

MINOR = ("store", "atomic", "scalar_load", "barrier", "branch")
"""Classes that the table of several kernels leaves out."""

DETAILS = """\
Disassemble built kernels. Shown are the registers, shared memory and spills its compiler reported, the
occupancy that follows by the rules of the target, and how many instructions of each class the inner loop
has: the loop that reads and multiplies most, found by the back edges of the code, without the
loops inside it.

Of AMD and DCU kernels a turn of the loop is told too, the shortest way round that passes all of its
loads and matrix instructions: how many loads are under way at products and when the turn ends, what
each wait leaves under way, how many instructions compute where loads find memory, and the cycles of
its instructions one after another. --loop prints the instructions of the turn, and beside each how many
loads are under way; of several kernels a table of turns.

--stand-in takes variants of a build for a chip that no compiler here knows, a DCU: sources are compiled to
assembly for the chip that stands in for it, matrix instructions as text, and nothing is assembled.

NAME is the name of a kernel (* and ? match), or of a build, of which every kernel is a row.

examples:
  kgen inspect paged_attention_gfx942_f16_d128_b16_bhsd_r4_p512
  kgen inspect 'paged_attention_gfx942_*_r8_*'
  kgen inspect 'paged_attention_gfx942_*_r8_*' --loop
  kgen inspect amd --json
  kgen inspect dcu --stand-in --only 'paged_attention_gfx936_bf16_*_r4_p0'

exit codes: 0 done, 1 nothing of that name is built, or it cannot be disassembled, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kernel, a pattern of kernels, or a build")
    parser.add_argument("--loop", action="store_true", help="a turn of the inner loop, for AMD and DCU")
    parser.add_argument(
        "--stand-in", action="store_true", help="the loops of NAME, a build that nothing here can build"
    )
    parser.add_argument("--only", metavar="NAME", help="with --stand-in, only the variants of this name")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.inspect.report import inspect

    if args.stand_in:
        return _stand_in(args)
    found = built(args.name)
    catalog = api.check()
    reports = [
        inspect(entry, artefact, catalog.target(entry.target.removeprefix("sim:")))
        for entry, artefact in found.values()
    ]
    if args.json:
        print_json([report_json(report) for report in reports])
    elif args.loop:
        _print_loops(reports)
    elif len(reports) == 1:
        _print_report(reports[0])
    else:
        _print_table(reports)
    return 0


def _stand_in(args: argparse.Namespace) -> int:
    """The turns of variants of a build as compilers of their targets' stand-ins lay them out."""
    from kgen import api
    from kgen.inspect.report import kernel_report, matrix_cycles
    from kgen.inspect.stand_in import assembly
    from kgen.variants.matching import matching

    kernels = []
    for variant in matching(api.expand(args.name).accepted, args.only):
        if variant.simulated or not variant.target.stand_in:
            continue
        cycles = matrix_cycles(variant.target)
        functions = [function for function in assembly(variant) if function.name == variant.name]
        kernels.append(kernel_report(variant.name, functions, variant.target.family, cycles))
    if args.json:
        print_json([_kernel_json(kernel) for kernel in kernels])
    elif len(kernels) == 1 and kernels[0].loop is not None and kernels[0].loop.turn is not None:
        print_lines(kernels[0].name, kernels[0].loop.turn)
    else:
        print_turns(kernels)
    return 0


def built(name: str) -> dict[str, tuple[Entry, Path]]:
    """The built kernels of a build, or of this name or pattern, with their artefacts, by name.

    Raises KgenError (K414) where there is none."""
    from fnmatch import fnmatchcase

    builds = _libraries()
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    if stem in builds:
        return builds[stem]
    every = {key: value for library in builds.values() for key, value in library.items()}
    found = {key: value for key, value in sorted(every.items()) if fnmatchcase(key, name)}
    if not found:
        known = [*builds, *sorted(every)]
        hint = choice_hint(name, known) if len(known) <= 20 else _nearest(name, known)
        raise KgenError(Diagnostic("K414", f"nothing named '{name}' is built", hint=hint))
    return found


def _nearest(name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    return f"did you mean '{close}'?" if close else "`kgen build` builds kernels, `kgen list` names them"


def _libraries() -> dict[str, dict[str, tuple[Entry, Path]]]:
    """Every build of the cache, the newest last: kernel name -> entry and artefact."""
    from kgen.manifest_read import read_library
    from kgen.paths import cache_dir

    found = {}
    files = (cache_dir() / "libraries").glob("*.json")
    for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name)):
        entries = read_library(file).entries
        found[file.stem] = {entry.name: (entry, file.parent / entry.artefact) for entry in entries}
    return found


def report_json(report: Report) -> Mapping[str, Any]:
    """A report as plain fields."""
    from kgen.commands.resources import occupancy_json

    return {
        "name": report.entry.name,
        "target": report.entry.target,
        "kind": report.entry.kind,
        "resources": dict(report.entry.resources),
        "occupancy": occupancy_json(report.occupancy) if report.occupancy else None,
        "kernels": [_kernel_json(kernel) for kernel in report.kernels],
    }


def _kernel_json(kernel: KernelReport) -> Mapping[str, Any]:
    loop = kernel.loop
    return {
        "name": kernel.name,
        "instructions": kernel.instructions,
        "loops": kernel.loops,
        "census": dict(kernel.census),
        "loop": None
        if loop is None
        else {
            "function": loop.function,
            "address": loop.address,
            "instructions": loop.instructions,
            "inner_loops": loop.inner,
            "census": dict(loop.census),
            "turn": turn_json(loop.turn) if loop.turn else None,
        },
    }


def _print_loops(reports: Sequence[Report]) -> None:
    """The turn of one kernel line by line; of several, or of none, the table."""
    kernels = [kernel for report in reports for kernel in report.kernels]
    turns = [(kernel.name, kernel.loop.turn) for kernel in kernels if kernel.loop and kernel.loop.turn]
    if len(reports) == 1 and turns:
        print_lines(*turns[0])
    else:
        print_turns(kernels)


def _print_report(report: Report) -> None:
    entry = report.entry
    print(f"{entry.name}\n  {entry.kind} code for {entry.target}, {entry.resources.get('bytes', '?')} bytes")
    figures = {name: value for name, value in entry.resources.items() if name != "bytes"}
    if figures:
        print("  " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))
    held = report.occupancy
    if held is not None:
        limits = ", ".join(f"{name} {blocks}" for name, blocks in held.limits.items())
        print(
            f"  occupancy: {held.blocks} blocks, {held.waves} of {held.max_waves} waves, "
            f"limited by {' and '.join(held.limited_by)} (blocks allowed: {limits})"
        )
    for kernel in report.kernels:
        _print_kernel(kernel)


def _print_kernel(kernel: KernelReport) -> None:
    loop = kernel.loop
    print(f"\n{kernel.name}: {kernel.instructions} instructions, {kernel.loops} loops")
    if loop is None:
        print("  no loop; the whole kernel:")
    else:
        where = "" if loop.function == kernel.name else f" of {loop.function}"
        inside = f", {loop.inner} loops inside it apart" if loop.inner else ""
        print(f"  inner loop at {loop.address:#x}{where}: {loop.instructions} instructions{inside}")
    for name, count in (loop.census if loop else kernel.census).items():
        print(f"  {count:6} {name}")
    if loop is not None and loop.turn is not None:
        print_turn(loop.turn)


def _print_table(reports: Sequence[Report]) -> None:
    from kgen.inspect.report import columns, real_use

    classes = [name for name in columns(reports) if name not in MINOR]
    rows = []
    for report in reports:
        use = real_use(report.entry)
        taken: list[object] = [use.registers, use.lds_bytes] if use else ["-", "-"]
        waves = report.occupancy.waves if report.occupancy else "-"
        figures = [*taken, report.entry.resources.get("spills", "-"), waves]
        for place, kernel in enumerate(report.kernels):
            loop = kernel.loop
            counts = loop.census if loop else kernel.census
            own = figures if place == 0 else [""] * len(figures)
            cells = [loop.instructions if loop else "none", *(counts.get(name, 0) for name in classes)]
            rows.append([kernel.name, *map(str, (*own, *cells))])
    print(aligned(["kernel", "registers", "LDS", "spills", "waves", "loop", *classes], rows))
    print("\nloop: instructions of the inner loop (none: of the kernel), then how many are of each class")
