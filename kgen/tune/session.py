"""A run of `kgen tune`: the classes of a build, one after another, into tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen import api
from kgen.bench.grid import freed, reason
from kgen.bench.machine import machine
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.load import load_tuning
from kgen.targets.host import host_features
from kgen.testing.device import device_for, no_device
from kgen.tune.classes import WORKBENCHES, CallClass
from kgen.tune.run import Timer, Tuned, file_of, merged, tune, write
from kgen.tuning import TuningTable
from kgen.variants.model import Variant

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Session:
    """What was measured, what failed and why, and the files that were written."""

    tuned: tuple[Tuned, ...]
    failed: Mapping[str, str]
    files: tuple[Path, ...]

    def json(self) -> dict[str, Any]:
        return {
            "classes": [one.json() for one in self.tuned],
            "failed": dict(self.failed),
            "files": [str(file) for file in self.files],
        }


def run(
    classes: Sequence[CallClass], folder: Path, *, timer: Timer, progress: Progress = lambda line: None
) -> Session:
    """Measure classes and keep each in its table as soon as it is known. One that fails is told and left.

    Raises KgenError: K587 where there is nothing to measure or a table cannot be written, and the faults of a
    table that is there already and cannot be read.
    """
    if not classes:
        hint = "tuning needs variants that differ in free parameters alone, and cells of the grid they serve"
        raise KgenError(
            Diagnostic("K587", "no class of calls is served by two variants of the build", hint=hint)
        )
    tables = {file_of(one, folder): kept(one, file_of(one, folder), progress) for one in classes}
    tuned: list[Tuned] = []
    failed: dict[str, str] = {}
    for number, one in enumerate(classes, 1):
        file = file_of(one, folder)
        try:
            with freed(device_of(one.variants[0]) or "cpu"):
                found = tune(one, api.compiler().policy(one.op), timer)
        except Exception as problem:  # whatever it is, the next class may do
            failed[one.name] = reason(problem)
            progress(f"[{number}/{len(classes)}] {one.name}: failed: {failed[one.name]}")
            continue
        tuned.append(found)
        tables[file] = merged(
            TuningTable(**{**vars(tables[file]), "classes": (found.entry(),)}), tables[file]
        )
        _write(tables[file], file)
        progress(f"[{number}/{len(classes)}] {found.line()}")
    files = dict.fromkeys(file_of(one.of, folder) for one in tuned)
    return Session(tuple(tuned), failed, tuple(files))


def kept(one: CallClass, file: Path, progress: Progress) -> TuningTable:
    """The table a class will be added to: what the file holds, or an empty one where there is none or it is
    of another compiler, whose times mean nothing here."""
    device = device_of(one.variants[0]) or "cpu"
    about = machine(device)
    name = str(about["device"]) + (f", {about['threads']} threads" if "threads" in about else "")
    empty = TuningTable(one.op, one.target, api.compiler_version(one.target), (), name)
    if not file.exists():
        return empty
    found = load_tuning(file, api.check().ops)
    if (found.op, found.target, found.compiler) == (empty.op, empty.target, empty.compiler):
        return TuningTable(**{**vars(found), "machine": name})
    progress(f"{file} is of kernels by {found.compiler or 'no compiler'}; it is written anew")
    return empty


def measurer(options: Mapping[str, Any]) -> Timer:
    """The timer that runs kernels."""

    def timer(one: CallClass) -> Mapping[str, Sequence[float]]:
        device = device_of(one.variants[0])
        assert device is not None  # `runnable` has looked
        return WORKBENCHES[one.op].measure(one.cell, one.variants, device, options)

    return timer


def runnable(classes: Sequence[CallClass], progress: Progress) -> tuple[CallClass, ...]:
    """The classes whose target is here; of the others it is told once what is missing."""
    missing = {one.target: _missing(one.variants[0]) for one in classes}
    for target, why in missing.items():
        if why:
            progress(f"{target} is left out: {why}")
    return tuple(one for one in classes if not missing[one.target])


def device_of(variant: Variant) -> str | None:
    """Where the kernels of a variant's target run, as torch names it; None where nowhere here."""
    if variant.target.family != "cpu":
        return device_for(variant.target.name)
    return "cpu" if host_features() >= set(variant.target.requires) else None


def _missing(variant: Variant) -> str:
    if device_of(variant) is not None:
        return ""
    if variant.target.family != "cpu":
        return no_device(variant.target.name)
    return f"this machine lacks {', '.join(sorted(set(variant.target.requires) - host_features()))}"


def _write(table: TuningTable, file: Path) -> None:
    try:
        write(table, file)
    except OSError as error:
        raise KgenError(Diagnostic("K587", f"cannot write {file}: {error.strerror}")) from None
