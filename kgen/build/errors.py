"""A failed compile as one diagnostic: the whole output, with places of the rendered source
turned into places of the template, and the command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen import paths
from kgen.build.job import Job
from kgen.diagnostics import Diagnostic, Source, Span
from kgen.render.model import LineOrigin

_SHOWN_NAMES = 8


@dataclass(frozen=True)
class Failure:
    """One compile that failed. `kept` is the folder where source and log can be looked at."""

    job: Job
    status: int
    log: str
    command: str
    kept: Path


def diagnostics(failures: Sequence[Failure]) -> tuple[Diagnostic, ...]:
    """A K401 for each distinct failure: variants that fail alike share one that names them all."""
    alike: dict[str, list[Failure]] = {}
    for failure in sorted(failures, key=lambda f: f.job.entry.name):
        text = map_output(failure.log, failure.job)
        nameless = re.sub(rf"\b{re.escape(failure.job.entry.symbol)}\b", "kernel", text)
        alike.setdefault(nameless, []).append(failure)
    return tuple(_diagnostic(group) for group in alike.values())


def _diagnostic(group: Sequence[Failure]) -> Diagnostic:
    first = group[0]
    job = first.job
    names = [failure.job.entry.name for failure in group]
    message = (
        f"{names[0]} does not compile ({Path(job.toolchain.compiler[0]).name}, exit status {first.status})"
    )
    if len(names) > 1:
        more = ", ".join(names[1:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
        message = f"{len(names)} variants do not compile in the same way: {names[0]}, {more}"
    output = map_output(first.log, job).rstrip() or "(the compiler said nothing)"
    notes = (
        f"the compiler said:\n{output}",
        f"command: {first.command}",
        f"rendered source: {first.kept / job.source}",
    )
    return Diagnostic("K401", message, _span(first), notes=notes)


def map_output(log: str, job: Job) -> str:
    """Compiler output with `kernel.cpp:12:5` read as the template line it came from.

    Headers are named as they lie in templates; the rendered place follows in brackets.
    """
    by_line = {origin.line: origin for origin in job.origins}

    def replace(match: re.Match[str]) -> str:
        origin = by_line.get(_line(match))
        return f"{_named(origin)}:{origin.template_line} ({match[0]})" if origin else match[0]

    include = re.compile(rf"(?:\.\./)?include/{job.headers.digest[:16]}/")
    return include.sub("templates/include/", _place(job.source).sub(replace, log))


def _place(source: str) -> re.Pattern[str]:
    """`kernel.cpp:12:5`, `kernel.cpp:12` (clang, g++) or `kernel.cu(12)` (nvcc)."""
    name = re.escape(source)
    return re.compile(rf"(?<![\w./-]){name}(?::(\d+)(?::\d+)?|\((\d+)\))")


def _line(match: re.Match[str]) -> int:
    return int(match[1] or match[2])


def _span(failure: Failure) -> Span | None:
    """Where the first error stands in its template."""
    job = failure.job
    for line in failure.log.splitlines():
        match = _place(job.source).match(line)
        if match and "error" in line:
            return _template_span(job.origins, _line(match))
    return None


def _template_span(origins: Sequence[LineOrigin], line: int) -> Span | None:
    origin = next((o for o in origins if o.line == line), None)
    if origin is None:
        return None
    path = paths.templates_dir() / origin.template
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        text = ""
    source = Source(_named(origin), text)
    shown = source.line(origin.template_line)
    start = len(shown) - len(shown.lstrip()) + 1
    number = origin.template_line
    return Span(source, number, start, number, max(start, len(shown.rstrip())) + 1)


def _named(origin: LineOrigin) -> str:
    return f"templates/{origin.template}"
