"""`kgen tune`: measure which of a build's kernels is the fastest for which calls, for dispatch to take."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_arch, add_build, add_json, console, positive, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from kgen.tune.session import Session

SUMMARY = "measure which kernels are the fastest here, into a table that calls use"

DETAILS = """\
For each class of calls of a grid: build the variants of BUILD that serve it and differ only in parameters
that calls leave open (partition_size, reuse_kv_times, ...), check their results, time them in turn, and
write the fastest into a table. One that is not better than what the operator's rules choose by more than
the measurements scatter does not replace it. A class reaches from half to twice the rows and the length of
its cell. Calls look a table up before the rules; `kgen explain call` says when it decided.

Tables are YAML, in KGEN_TUNE_DIR or the cache, one file for each operator, target and set of fixed
parameters. They hold for the compiler that made the kernels; one of another is passed over. A class that is
measured again is replaced, the others stay.

examples:
  kgen tune host --grid cpu
  kgen tune h200 --only "block_size == 64" --out tuned
  KGEN_TUNE_DIR=tuned python serve.py

exit codes: 0 done, 1 a fault or a class that failed, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build(parser)
    parser.add_argument(
        "--grid",
        default="classes",
        metavar="GRID",
        help="cells to measure: a file, or a name in specs/benches",
    )
    parser.add_argument("--only", metavar="EXPR", help="the cells this holds for: batch == 1 and heads == 32")
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="rounds of all in turn (20)")
    parser.add_argument("--threads", type=positive, metavar="N", help="threads of CPU kernels (torch's)")
    parser.add_argument("--jobs", type=positive, metavar="N", help="compilers to run at once")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write tables here (KGEN_TUNE_DIR, else the cache)"
    )
    add_arch(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api, paths
    from kgen.spec.benches import cell_filter
    from kgen.spec.load import load_bench
    from kgen.tune import session
    from kgen.tune.classes import classes_of

    catalog = api.check()
    bench = load_bench(api.bench_path(args.grid), catalog)
    only = None if args.only is None else cell_filter(args.only, bench, catalog)
    matrix = api.expand(args.build, args.arch, catalog)
    classes = session.runnable(classes_of(matrix, bench, api.compiler().policy, only), _tell)
    wanted = {variant.name: variant for one in classes for variant in one.variants}
    if wanted:
        api.build_matrix(matrix, args.jobs, chosen=list(wanted.values()))
    timer = session.measurer({"rounds": args.rounds, "threads": args.threads})
    found = session.run(classes, args.out or paths.tune_dir(), timer=timer, progress=_tell)
    if args.json:
        print_json(found.json())
    else:
        console().print(_table(found))
        for file in found.files:
            print(file)
    return 1 if found.failed else 0


def _tell(line: str) -> None:
    print(f"kgen: {line}", file=sys.stderr, flush=True)


def _table(found: Session) -> Table:
    from rich.table import Table

    table = Table(title="the fastest kernel of each class")
    for heading in ("class", "rule", "us", "fastest", "us", "times as fast"):
        table.add_column(heading, justify="left" if heading in ("class", "rule", "fastest") else "right")
    for one in found.tuned:
        rule, best = one.spreads[one.rule], one.spreads[one.best]
        beaten = one.best != one.rule
        table.add_row(
            one.of.name,
            one.label(one.rule),
            f"{rule.median * 1e6:.1f}",
            one.label(one.best) if beaten else "",
            f"{best.median * 1e6:.1f}" if beaten else "",
            f"{rule.median / best.median:.2f}" if beaten else "",
        )
    for name, why in found.failed.items():
        table.add_row(name, "failed", "", why, "", "")
    return table
