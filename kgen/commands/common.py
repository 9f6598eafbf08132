"""What several commands share: arguments and output."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from kgen.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console


def add_build(parser: argparse.ArgumentParser) -> None:
    """The BUILD argument."""
    parser.add_argument("build", metavar="BUILD", help="a build spec: a file, or a name in specs/builds")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The --json switch."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, for a program")


def add_arch(parser: argparse.ArgumentParser) -> None:
    """The --arch option."""
    parser.add_argument(
        "--arch",
        metavar="TARGET",
        help="what `native` means in the spec (default: the best target of this host; see KGEN_ARCH)",
    )


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=1, default=str))


def console() -> Console:
    """A rich console on stdout that keeps long lines whole when the output is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    return Console(width=width, highlight=False, soft_wrap=False)


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in columns, the first to the left and the rest to the right, however wide it gets."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def report(diagnostics: Sequence[Diagnostic], *, as_json: bool) -> None:
    """Tell the user of faults: text on stderr, or for a program JSON on stdout."""
    if as_json:
        print_json({"ok": False, "diagnostics": [diagnostic_json(d) for d in diagnostics]})
        return
    print("\n\n".join(_coloured(str(d), sys.stderr) for d in diagnostics), file=sys.stderr)


def diagnostic_json(diagnostic: Diagnostic) -> Mapping[str, Any]:
    """A diagnostic with its place as plain fields."""
    span = diagnostic.span
    place = (
        {
            "file": span.source.name,
            "line": span.line,
            "col": span.col,
            "end_line": span.end_line,
            "end_col": span.end_col,
        }
        if span
        else None
    )
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "place": place,
        "hint": diagnostic.hint,
        "notes": list(diagnostic.notes),
    }


def positive(text: str) -> int:
    """An integer of at least 1, as argparse reads one."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no integer of at least 1")
    return int(text)


def whole(text: str) -> int:
    """An integer of at least 0, as argparse reads one."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no integer of at least 0")
    return int(text)


def _coloured(text: str, stream: TextIO) -> str:
    if not stream.isatty() or "NO_COLOR" in os.environ:
        return text
    return text.replace("error[", "\033[1;31merror\033[0m[", 1).replace("hint:", "\033[1;36mhint:\033[0m")
