"""`kgen check`: every fault of the specs at once, before anything is generated."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_json, diagnostic_json, print_json, report
from kgen.diagnostics import Collector, Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from kgen.spec.catalog import Catalog
    from kgen.spec.model import OpSpec, TargetSpec

SUMMARY = "type-check specs and expand builds, without building anything"

DETAILS = """\
Read specs, check every name, type and expression in them, and expand the builds. All faults are
told at once, each with its place, a caret, what was expected and the nearest valid choice.

With no argument: everything under specs/ (targets, layouts, operators, builds, grids of benchmarks).
A FOLDER is read as a whole specs folder; a FILE is an operator, a target, the layouts, the masks, a build,
a grid or a tuning table.

examples:
  kgen check
  kgen check specs/builds/host.yaml my_build.yaml
  kgen check my_specs/ --json

exit codes: 0 no faults, 1 faults, 2 usage
"""

KINDS = ("op", "tuned", "target", "layouts", "build", "bench", "masks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="*", type=Path, metavar="SPEC", help="files or specs folders")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import paths

    given: Sequence[Path] = args.spec or [paths.shown(paths.specs_dir())]
    sound: list[str] = []
    faults: list[Diagnostic] = []
    for path in given:
        try:
            sound += check_folder(path) if path.is_dir() else check_file(path)
        except KgenError as error:
            faults += [d for d in error.diagnostics if d not in faults]
    if args.json:
        shown = [diagnostic_json(fault) for fault in faults]
        print_json({"ok": not faults, "checked": sound, "diagnostics": shown})
        return 1 if faults else 0
    for line in sound:
        print(f"ok  {line}")
    if faults:
        report(faults, as_json=False)
        print(f"\n{len(faults)} fault{'s' if len(faults) > 1 else ''}")
    return 1 if faults else 0


def check_folder(folder: Path) -> list[str]:
    """Check a whole specs folder. One line for each thing that is sound; raises KgenError."""
    from kgen.spec.load import load_catalog

    catalog = load_catalog(folder)
    _check_instructions(catalog.targets)
    _check_rows(catalog.ops.values())
    counts = f"{len(catalog.ops)} operators, {len(catalog.targets)} targets, {len(catalog.layouts)} layouts"
    builds = _check_builds(sorted((folder / "builds").glob("*.yaml")), catalog)
    return [
        f"{folder}: {counts}",
        *builds,
        *_check_benches(sorted((folder / "benches").glob("*.yaml")), catalog),
    ]


def check_file(path: Path) -> list[str]:
    """Check one file, told apart by the key that names what it is. Raises KgenError."""
    from kgen.spec.load import load_catalog, load_layouts, load_masks, load_op, load_target, load_tuning

    kind = kind_of(path)
    if kind == "target":
        target = load_target(path)
        _check_instructions({target.name: target})
        return [f"{path}: target {target.name}"]
    if kind == "layouts":
        return [f"{path}: {len(load_layouts(path))} layouts"]
    if kind == "masks":
        return [f"{path}: {len(load_masks(path))} masks"]
    catalog = load_catalog()
    if kind == "op":
        op = load_op(path, catalog.layouts, list(catalog.targets))
        _check_rows([op])
        return [f"{path}: operator {op.name}"]
    if kind == "tuned":
        table = load_tuning(path, catalog.ops)
        return [f"{path}: {len(table.classes)} classes of {table.op} on {table.target}"]
    if kind == "bench":
        return _check_benches([path], catalog)
    return _check_builds([path], catalog)


def _check_benches(files: Iterable[Path], catalog: Catalog) -> list[str]:
    from kgen.spec.load import load_bench

    lines: list[str] = []
    faults: list[Diagnostic] = []
    for file in files:
        try:
            lines.append(f"{file}: {len(load_bench(file, catalog).cells())} cells")
        except KgenError as error:
            faults += error.diagnostics
    if faults:
        raise KgenError(faults)
    return lines


def _check_instructions(targets: Mapping[str, TargetSpec]) -> None:
    from kgen.targets.instructions import check_instructions

    found = Collector()
    check_instructions(targets, found)
    found.check()


def _check_rows(ops: Iterable[OpSpec]) -> None:
    from kgen.testing.rows import check_rows

    found = Collector()
    for op in ops:
        try:
            check_rows(op)
        except KgenError as error:
            found.extend(error.diagnostics)
    found.check()


def kind_of(path: Path) -> str:
    """Which of KINDS a file is. Raises KgenError for a file that is none, or cannot be read."""
    from kgen.spec.load import root_keys

    keys = root_keys(path)
    for kind in KINDS:
        if kind in keys:
            return kind
    message = f"{path} says nothing of what it is: a spec has one of the keys {', '.join(KINDS)}"
    raise KgenError(Diagnostic("K202", message, hint=choice_hint(next(iter(keys), ""), KINDS)))


def _check_builds(files: Iterable[Path], catalog: Catalog) -> list[str]:
    from kgen import api

    lines: list[str] = []
    faults: list[Diagnostic] = []
    for file in files:
        try:
            matrix = api.expand(file, catalog=catalog)
        except KgenError as error:
            faults += error.diagnostics
        else:
            counts = f"{len(matrix.accepted)} accepted + {len(matrix.rejected)} rejected"
            lines.append(f"{file}: {counts} = {matrix.product} combinations")
    if faults:
        raise KgenError(faults)
    return lines
