"""The dialect of GPU templates: what a rendered kernel must not say, and what it says instead.

A kernel reaches memory, other lanes and the chip through `kgen/gpu/dialect.hpp` alone. What goes
round it would run unchecked in the simulator, or on one maker's chips only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kgen.diagnostics import Diagnostic, KgenError, Source, Span
from kgen.render.model import LineOrigin

_RULES = (
    (r"\b__shared__\b", "declare shared memory with KGEN_LDS and carve it with lds.array"),
    (r"\b(?:reinterpret_cast|const_cast)\b", "reach memory through Global and LdsArray"),
    (r"\bstatic_cast\s*<[^<>]*\*\s*>", "reach memory through Global and LdsArray"),
    (
        r"\(\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s*<[^()]*>)?(?:\s+const)?\s*\*+\s*\)",
        "reach memory through Global and LdsArray",
    ),
    (r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b", "use thread_id, lane_id, block_x, kWave"),
    (r"\b__(?:syncthreads|syncwarp)\w*", "use block_sync and wave_sync"),
    (r"\b__(?:shfl|ballot|any|all|activemask)\w*", "use shuffle, shuffle_xor, ballot, lanes_sum"),
    (r"\b__builtin_(?:amdgcn|hcu|nvvm)_\w+|\b__nvvm_\w+", "add a word to the dialect"),
    (r"\basm\b", "add a word to the dialect"),
    (r"\batomic[A-Z]\w*|\b__atomic_\w+|\b__hip_atomic_\w+", "use compare_and_swap or fetch_add"),
    (r"\b__threadfence\w*", "use device_release and device_acquire"),
    (r"\b(?:hip|cuda)[A-Z]\w*", "add a word to the dialect"),
)
_FORBIDDEN = tuple((re.compile(pattern), instead) for pattern, instead in _RULES)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def check_dialect(text: str, origins: Sequence[LineOrigin], templates: Path) -> None:
    """Refuse (K337) everything in a rendered GPU source that is not of the dialect, at its template
    lines."""
    by_line = {origin.line: origin for origin in origins}
    faults = [
        Diagnostic(
            "K337", f"'{found}' is not of the GPU dialect", _span(by_line.get(line), templates), instead
        )
        for line, found, instead in _violations(text)
    ]
    if faults:
        raise KgenError(faults)


def _violations(text: str) -> Iterator[tuple[int, str, str]]:
    code = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
    for number, line in enumerate(code.splitlines(), start=1):
        for pattern, instead in _FORBIDDEN:
            for match in pattern.finditer(line):
                yield number, match[0], instead


def _span(origin: LineOrigin | None, templates: Path) -> Span | None:
    """The visible part of the template's line."""
    if origin is None:
        return None
    source = Source(f"templates/{origin.template}", (templates / origin.template).read_text(encoding="utf-8"))
    shown = source.line(origin.template_line)
    start = len(shown) - len(shown.lstrip()) + 1
    return Span(source, origin.template_line, start, origin.template_line, len(shown.rstrip()) + 1)
