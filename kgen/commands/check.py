"""`kgen check`: every fault of the specs at once, before anything is generated."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_json, console, diagnostic_json, print_json, report
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from kgen.spec.load import Catalog

SUMMARY = "type-check specs and expand builds, without building anything"

DETAILS = """\
Read specs, check every name, type and expression in them, and expand the builds. All faults are
told at once, each with its place, a caret, what was expected and the nearest valid choice.

With no argument: everything under specs/ (targets, layouts, operators, builds).
A FOLDER is read as a whole specs folder; a FILE is an operator, a target, the layouts or a build.

examples:
  kgen check
  kgen check specs/builds/host.yaml my_build.yaml
  kgen check my_specs/ --json

exit codes: 0 no faults, 1 faults, 2 usage
"""

KINDS = ("op", "target", "layouts", "build")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="*", type=Path, metavar="SPEC", help="files or specs folders")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.paths import specs_dir

    paths: Sequence[Path] = args.spec or [specs_dir()]
    found: list[str] = []
    faults: list[Diagnostic] = []
    for path in paths:
        try:
            found += check_folder(path) if path.is_dir() else check_file(path)
        except KgenError as error:
            faults += [d for d in error.diagnostics if d not in faults]
    if args.json:
        document = {"ok": not faults, "checked": found, "diagnostics": [diagnostic_json(d) for d in faults]}
        print_json(document)
    else:
        _print(found, faults)
    return 1 if faults else 0


def check_folder(folder: Path) -> list[str]:
    """Check a whole specs folder. One line for each thing that is sound."""
    from kgen.spec.load import load_catalog

    catalog = load_catalog(folder)
    lines = [
        f"{folder}: {len(catalog.ops)} operators, {len(catalog.targets)} targets, {len(catalog.layouts)} layouts"
    ]
    return lines + _check_builds(sorted((folder / "builds").glob("*.yaml")), catalog)


def check_file(path: Path) -> list[str]:
    """Check one file, told apart by its first key."""
    from kgen.spec.load import load_catalog, load_layouts, load_op, load_target

    kind = _kind(path)
    if kind == "op":
        return [f"{path}: operator {load_op(path, load_catalog().layouts).name}"]
    if kind == "target":
        return [f"{path}: target {load_target(path).name}"]
    if kind == "layouts":
        return [f"{path}: {len(load_layouts(path))} layouts"]
    return _check_builds([path], load_catalog())


def _check_builds(paths: Iterable[Path], catalog: Catalog) -> list[str]:
    from kgen.spec.load import load_build
    from kgen.targets.host import native_target
    from kgen.variants.matrix import expand

    lines: list[str] = []
    faults: list[Diagnostic] = []
    for path in paths:
        try:
            matrix = expand(load_build(path, catalog), catalog, native_target(catalog))
        except KgenError as error:
            faults += error.diagnostics
        else:
            counts = f"{len(matrix.accepted)} accepted + {len(matrix.rejected)} rejected"
            lines.append(f"{path}: {counts} = {matrix.product} combinations")
    if faults:
        raise KgenError(faults)
    return lines


def _kind(path: Path) -> str:
    from kgen.diagnostics import Source
    from kgen.syntax.yaml import load

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise KgenError(Diagnostic("K201", f"cannot read {path}: {error}")) from None
    root = load(Source(str(path), text))
    keys = [key for key, _ in getattr(root, "items", ())]
    for kind in KINDS:
        if kind in keys:
            return kind
    message = f"{path} says nothing that makes it a spec; its first key names what it is"
    first = keys[0] if keys else ""
    raise KgenError(Diagnostic("K202", message, root.span, choice_hint(first, KINDS)))


def _print(found: Sequence[str], faults: Sequence[Diagnostic]) -> None:
    for line in found:
        console().print(f"[green]ok[/green]  {line}", highlight=False)
    if faults:
        report(faults, as_json=False)
        print(f"\n{len(faults)} fault{'s' if len(faults) > 1 else ''}")
