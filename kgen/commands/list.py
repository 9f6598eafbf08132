"""`kgen list`: the matrix of a build, with what was rejected and why."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgen.commands.common import add_arch, add_build, add_json, console, print_json
from kgen.commands.resources import built_entries, resource_row, resources_json

if TYPE_CHECKING:
    from kgen.manifest import Entry
    from kgen.variants.model import Matrix, Rejected, Variant

SUMMARY = "show the variants of a build, accepted and rejected"

DETAILS = """\
Expand a build into its matrix and print it. Every combination of its axes is there: accepted, or
rejected with the rule that rejects it; accepted + rejected is always the whole product.

examples:
  kgen list host
  kgen list specs/builds/host.yaml --rejected
  kgen list amd --resources           what is planned for each beside what the compiler made
  kgen list host --json | jq '.accepted[].name'

exit codes: 0 done, 1 a fault in a spec, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build(parser)
    parser.add_argument("--op", metavar="OP", help="only the variants of this operator")
    parser.add_argument("--rejected", action="store_true", help="the rejected combinations, with the rule")
    parser.add_argument(
        "--resources",
        action="store_true",
        help="add what each kernel takes: planned, and real once it is built",
    )
    add_arch(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api

    matrix = api.expand(args.build, args.arch)
    accepted = [v for v in matrix.accepted if args.op in (None, v.op.name)]
    rejected = [r for r in matrix.rejected if args.op in (None, r.op)]
    entries = built_entries(matrix.build) if args.resources else None
    if args.json:
        print_json(_document(matrix, accepted, rejected, entries or {}))
    elif args.rejected:
        for entry in rejected:
            print_rejected(entry, title=f"{entry.name}\n    {entry.rule}")
        print(f"{len(rejected)} of {matrix.product} combinations are rejected")
    else:
        _print_accepted(accepted, entries)
        _print_totals(matrix, accepted)
    return 0


def _document(
    matrix: Matrix,
    accepted: Sequence[Variant],
    rejected: Sequence[Rejected],
    entries: Mapping[str, Entry],
) -> Mapping[str, Any]:
    return {
        "build": matrix.build,
        "product": matrix.product,
        "accepted": [
            {
                "name": v.name,
                "op": v.op.name,
                "target": v.target.name,
                "params": dict(v.params),
                **resources_json(v, entries.get(v.name)),
            }
            for v in accepted
        ],
        "rejected": [rejected_json(r) for r in rejected],
    }


def rejected_json(rejected: Rejected) -> Mapping[str, Any]:
    """A rejected combination as plain fields."""
    return {
        "name": rejected.name,
        "op": rejected.op,
        "params": dict(rejected.params),
        "rule": rejected.rule,
        "because": rejected.because,
        "where": str(rejected.where) if rejected.where else None,
        "figures": dict(rejected.figures),
    }


def _print_accepted(accepted: Sequence[Variant], entries: Mapping[str, Entry] | None) -> None:
    """A table of the variants; with the built `entries`, of what each takes: planned / real."""
    from rich.table import Table

    rows = [{} if entries is None else resource_row(v, entries.get(v.name)) for v in accepted]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("variant", no_wrap=True)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in ["operator", "target"] if entries is None else columns:
        table.add_column(column, no_wrap=True, justify="left" if entries is None else "right")
    for variant, row in zip(accepted, rows, strict=True):
        named = [variant.op.name, variant.target.name]
        table.add_row(variant.name, *(named if entries is None else (row.get(name, "-") for name in columns)))
    console().print(table)
    if entries is not None:
        print("\nLDS, registers and waves of a compute unit: planned / real")
    missing = sum(variant.name not in entries for variant in accepted) if entries is not None else 0
    if missing:
        print(f"{missing} of these are not built yet: kgen build")


def print_rejected(entry: Rejected, title: str) -> None:
    """The reason of a rejection, its figures and its place, below a title."""
    print(f"{title}\n    because {entry.because}")
    if entry.figures:
        print("    where " + ", ".join(f"{name} = {value}" for name, value in entry.figures.items()))
    if entry.where:
        print(f"    at {entry.where}")


def _print_totals(matrix: Matrix, accepted: Sequence[Variant]) -> None:
    by_op = ", ".join(f"{count} {op}" for op, count in Counter(v.op.name for v in accepted).items())
    counts = f"{len(matrix.accepted)} accepted + {len(matrix.rejected)} rejected = {matrix.product}"
    print(f"\n{matrix.build}: {counts} ({by_op})")
