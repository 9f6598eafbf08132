"""`kgen bench decode` over a grid: running it, keeping it, showing what was kept, drawing it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.commands.common import console, print_json
from kgen.diagnostics import Diagnostic, KgenError

if TYPE_CHECKING:
    from kgen.bench.outcome import GridReport

FAILED_CELLS = 1
OWN = ("grid", "only", "out", "plot", "read")
"""Options that are not those of a single call."""

Progress = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What decode has beside the options of a single call."""
    parser.add_argument("--ragged", action="store_true", help="rows of 1 to CONTEXT tokens, drawn uniformly")
    parser.add_argument(
        "--peers",
        nargs="+",
        metavar="PEER",
        help="who runs beside: names, all, or none (all that need not compile for each shape)",
    )
    parser.add_argument(
        "--grid", metavar="GRID", help="measure the cells of a grid: a file, or a name in specs/benches"
    )
    parser.add_argument(
        "--only", metavar="EXPR", help="of the grid, the cells this holds for: head_dim == 64 and ragged"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep a grid's results here, cell by cell")
    parser.add_argument(
        "--from",
        dest="read",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing: show what --out kept, in one file or in several",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw a picture (needs matplotlib)")


def run(args: argparse.Namespace, options: Mapping[str, Any], progress: Progress) -> int:
    """Do what the options ask; 1 where a cell failed. Raises KgenError."""
    call = {name: value for name, value in options.items() if name not in OWN}
    if args.plot is not None:
        from kgen import pictures

        pictures.pyplot()  # before minutes of measuring
    if args.read is not None or args.grid is not None:
        return _show(args, _report(args, call, progress))
    for name in ("only", "out"):
        if getattr(args, name) is not None:
            raise KgenError(Diagnostic("K580", f"--{name} goes with --grid", hint="name a grid: --grid full"))
    return _rows(args, call, progress)


def _rows(args: argparse.Namespace, call: Mapping[str, Any], progress: Progress) -> int:
    from kgen.bench import decode, table
    from kgen.bench.outcome import GridReport, outcomes_of
    from kgen.bench.plot import plot

    rows = decode.run(call, progress)
    if args.plot is not None:
        where = {"device": rows[0].shape.device} if rows else {}
        plot(GridReport("calls", "", where, {}, outcomes_of(rows)), args.plot)
    if args.json:
        print_json([row.json() for row in rows])
    else:
        console().print(table.decode_table(rows))
    return 0


def _report(args: argparse.Namespace, call: Mapping[str, Any], progress: Progress) -> GridReport:
    from kgen import api
    from kgen.bench.grid import cells_of, kernels_of, run_grid
    from kgen.bench.outcome import joined, read_grid
    from kgen.spec.benches import cell_filter
    from kgen.spec.load import load_bench

    if args.read is not None:
        if args.grid or args.only or args.out:
            message = "--from shows a run that is done; --grid, --only and --out are of one to come"
            raise KgenError(Diagnostic("K580", message))
        return joined([read_grid(file) for file in args.read])
    catalog = api.check()
    bench = load_bench(api.bench_path(args.grid), catalog)
    only = None if args.only is None else cell_filter(args.only, bench, catalog)
    try:
        api.build_ahead(kernels_of(cells_of(bench, only), call))
    except KgenError as error:
        first = error.diagnostics[0]
        if not first.code.startswith("K4"):
            raise
        progress(f"not every kernel can be built, and its cells will say why: {first.message}")
    command = shlex.join(["kgen", *sys.argv[1:]])
    return run_grid(bench, call, only=only, command=command, out=args.out, progress=progress)


def _show(args: argparse.Namespace, report: GridReport) -> int:
    from kgen.bench.plot import plot
    from kgen.bench.table import grid_table

    if args.plot is not None:
        plot(report, args.plot)
    if args.json:
        print_json(report.json())
    else:
        console().print(grid_table(report))
    return FAILED_CELLS if report.failed else 0
