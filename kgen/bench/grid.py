"""`kgen bench decode --grid`: the cells of a grid, one after another."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kgen import env
from kgen.bench import decode
from kgen.bench.contenders import chosen_peers
from kgen.bench.decode import DEFAULTS, FORCED, Progress, Row, using_threads
from kgen.bench.decode_call import kernel_of
from kgen.bench.device import find_device, insisted
from kgen.bench.machine import clocks, machine, versions
from kgen.bench.outcome import GridReport, Outcome
from kgen.bench.pool import Shape
from kgen.diagnostics import Diagnostic, KgenError
from kgen.manifest import Scalar
from kgen.spec.benches import BenchCell, BenchSpec, holds
from kgen.spec.load import load_catalog
from kgen.syntax.ast import Expr

OPTIONS = ("device", "arch", "threads", "rounds", *FORCED, "peers")
"""Options of `kgen bench decode` that a grid leaves open."""

Measure = Callable[[Shape, Mapping[str, Any], Progress], Row]


def kernels_of(cells: Sequence[BenchCell], args: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Scalar]]]:
    """The variants that cells are measured by, to be built together; none where building is off. Raises
    KgenError as `run_grid` does."""
    if not env.jit():
        return []
    options = _options(args)
    device = find_device(options["device"], options["arch"], load_catalog())
    forced, arch = {name: options[name] for name in FORCED}, insisted(options["arch"])
    return [kernel_of(shape_of(cell, device, options), forced, arch) for cell in cells]


def cells_of(bench: BenchSpec, only: Expr | None) -> list[BenchCell]:
    """The cells that `only` holds for. Raises KgenError (K580) where there is none."""
    cells = [cell for cell in bench.cells() if only is None or holds(only, cell)]
    if not cells:
        raise KgenError(Diagnostic("K580", f"no cell of the grid {bench.name} is left by --only"))
    return cells


def run_grid(
    bench: BenchSpec,
    args: Mapping[str, Any],
    *,
    only: Expr | None = None,
    command: str = "",
    out: Path | None = None,
    progress: Progress = lambda line: None,
    measure: Measure = decode.measure,
) -> GridReport:
    """Measure the cells of a grid that `only` holds for. A cell that fails is told and left; `progress`
    hears a line as each is done, and `out` then holds all so far.

    Raises KgenError: K580 for an option that the grid decides or where no cell is left, K582 for a device
    that is not there.
    """
    options = _options(args)
    device = find_device(options["device"], options["arch"], load_catalog())
    chosen_peers(options["peers"], device)
    cells = cells_of(bench, only)
    where = {**machine(device), "clocks": {"before": clocks(device)}}
    report = GridReport(bench.name, command, where, versions(device), ())
    told = _once(progress)
    for number, cell in enumerate(cells, 1):
        outcome = _outcome(bench, cell, device, options, told, measure)
        where["clocks"]["after"] = clocks(device) if number == len(cells) else {}
        report = GridReport(bench.name, command, where, report.versions, (*report.outcomes, outcome))
        progress(f"[{number}/{len(cells)}] {outcome.line()}")
        if out is not None:
            write(report, out)
    return report


def write(report: GridReport, out: Path) -> None:
    """Keep a run in a file, which holds all of it or what it held before. Raises KgenError (K585)."""
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(report.json(), indent=1) + "\n", encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise KgenError(Diagnostic("K585", f"cannot write {out}: {error.strerror}")) from None


def _options(args: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {name: value for name, value in args.items() if value is not None and value is not False}
    for name in given:
        if name not in OPTIONS:
            message = f"--{name.replace('_', '-')} is decided by the grid"
            raise KgenError(Diagnostic("K580", message, hint="choose cells with --only, or leave --grid out"))
    policies = given.get("policy", (None,))
    if len(policies) > 1:
        raise KgenError(
            Diagnostic("K580", "a grid is measured under one policy", hint="name one after --policy")
        )
    return {**DEFAULTS, **given, "policy": policies[0]}


def _outcome(
    bench: BenchSpec,
    cell: BenchCell,
    device: str,
    options: Mapping[str, Any],
    progress: Progress,
    measure: Measure,
) -> Outcome:
    means = tuple(name for name, condition in bench.means.items() if holds(condition, cell))
    try:
        shape = shape_of(cell, device, options)
        with freed(device), using_threads(shape.threads or torch.get_num_threads()):
            return Outcome(cell.name, means, measure(shape, options, progress).json())
    except Exception as problem:  # whatever it is, the next cell may do
        return Outcome(cell.name, means, failed=reason(problem))


def shape_of(cell: BenchCell, device: str, options: Mapping[str, Any]) -> Shape:
    """The call of a cell on a device."""
    work, heads = cell.workload, cell.heads
    return Shape(
        batch=work.batch,
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        context=work.context,
        block_size=cell.block_size,
        layout=cell.layout,
        dtype=cell.dtype,
        kv_dtype=cell.kv_dtype,
        threads=(options["threads"] or torch.get_num_threads()) if device == "cpu" else 0,
        device=device,
        ragged=work.ragged,
        seed=work.seed,
    )


def reason(problem: Exception) -> str:
    """Why something failed, in one line."""
    if isinstance(problem, KgenError):
        first = problem.diagnostics[0]
        return f"{first.code}: {first.message}"
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}{': ' + lines[0] if lines else ''}"


@contextmanager
def freed(device: str) -> Iterator[None]:
    """Memory that was taken before is given back first; an error may have held it until now."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
    yield


def _once(progress: Progress) -> Progress:
    """Tells each line once: why a peer is absent is the same in every cell."""
    told: set[str] = set()

    def tell(line: str) -> None:
        if line not in told:
            told.add(line)
            progress(line)

    return tell
