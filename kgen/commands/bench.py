"""`kgen bench`: measure kernels against the machine's own ceilings and against torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kgen.commands.common import add_json, console, positive, print_json

SUMMARY = "measure kernels against ceilings taken in the same run"

DETAILS = """\
  decode     paged_attention in GB/s of keys and values, as a share of two ceilings (a loop that only
             reads the same pages in the same table order, and a plain streaming read), and against
             torch's best form, which is given the keys and values already gathered. All of them
             run in turn, round after round; the median of the rounds' ratios counts.
  overhead   what one small call of each operator costs before any work
  params     what block_size and partition_size cost and give

examples:
  kgen bench decode
  kgen bench decode --dtype bf16 --block-size 16 --context 4096 --threads 2 --json
  kgen bench overhead

exit codes: 0 done, 1 a fault (a result that is wrong is not timed), 2 usage
"""

# The options that take several values, and those that take one.
_LISTS: Mapping[str, Callable[[str], Any]] = {"dtype": str, "layout": str, "block_size": positive}
_NUMBERS = (
    "batch",
    "heads",
    "kv_heads",
    "head_dim",
    "context",
    "threads",
    "rounds",
    "reuse_kv_times",
    "partition_size",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    decode = kinds.add_parser("decode", help="decode attention against its ceilings")
    for name, kind in _LISTS.items():
        decode.add_argument(_flag(name), type=kind, nargs="+", metavar=name.upper())
    for name in _NUMBERS:
        decode.add_argument(_flag(name), type=positive, metavar="N")
    overhead = kinds.add_parser("overhead", help="the cost of a call before any work")
    for name in ("calls", "rounds", "threads"):
        overhead.add_argument(_flag(name), type=positive, metavar="N")
    params = kinds.add_parser("params", help="the cost of block and partition sizes")
    for name in ("batch", "heads", "kv_heads", "head_dim", "context", "threads", "rounds"):
        params.add_argument(_flag(name), type=positive, metavar="N")
    for kind_parser in (decode, overhead, params):
        add_json(kind_parser)


def run(args: argparse.Namespace) -> int:
    from kgen.bench import report

    options = {name: value for name, value in vars(args).items() if name not in ("run", "json", "kind")}
    found = report.run(args.kind, options, lambda line: print(f"kgen: {line}", file=sys.stderr, flush=True))
    if args.json:
        print_json(found.json())
    else:
        console().print(found.table())
    return 0


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
