"""The command `kgen`: one parser, one place where faults become text and exit codes.

Exit codes: 0 done, 1 a fault in the input or a failed check, 2 wrong usage, 130 interrupted,
141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from kgen import __version__
from kgen.commands.common import report
from kgen.diagnostics import KgenError
from kgen.env import unknown_variables

COMMANDS = (
    *("check", "list", "explain", "render", "build", "inspect", "test", "bench"),
    *("tune", "generate", "replay", "paper", "demo", "clean"),
)

FAULT, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

EPILOG = """\
A spec says which variants of an operator are wanted; kgen checks it, expands it into a matrix,
renders each variant to source, builds it and dispatches to it. BUILD is a file of specs/builds or
its bare name (`host`).

exit codes:
  0  done        1  a fault in the input, or a failed check        2  wrong usage

`kgen COMMAND --help` says more of each.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code; prints faults, never a traceback of one."""
    args = argparse.Namespace(json=False)
    try:
        args = build_parser().parse_args(argv)
        for odd in unknown_variables():
            print(f"kgen: warning: {odd.message}; {odd.hint}", file=sys.stderr)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KgenError as error:
        report(error.diagnostics, as_json=args.json)
        return FAULT
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print("\nkgen: interrupted", file=sys.stderr)
        return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The parser with every command in it."""
    parser = argparse.ArgumentParser(
        prog="kgen",
        description="A compiler for LLM attention kernels.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kgen {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        _add_command(commands, name, importlib.import_module(f"kgen.commands.{name}"))
    return parser


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, module: ModuleType
) -> None:
    parser = commands.add_parser(
        name,
        help=module.SUMMARY,
        description=module.DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=module.run, json=False)
    module.add_arguments(parser)


def _forget_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
