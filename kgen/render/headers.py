"""Which headers of templates/include a rendered source needs, transitively.

Every `#include` is followed, whatever `#if` it stands under: a header too many costs a rebuild,
a header too few costs a stale kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgen.diagnostics import Diagnostic, KgenError, choice_hint

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)[">]', re.MULTILINE)

Includes = tuple[tuple[str, str], ...]
"""The mark before each name (a quote or `<`), and the name."""


def headers_of(text: str, include_dir: Path) -> tuple[str, ...]:
    """The headers under `include_dir` that `text` includes, each once, in the order a compiler
    opens them, as paths relative to `include_dir`.

    Names not found there are the system's, except that a quoted name which is nowhere raises K331.
    """
    includes = tuple(_INCLUDE.findall(text))
    known = _answers.get((includes, include_dir))
    if known is None or known.state != _state(known.headers, include_dir):
        found: dict[str, None] = {}
        _collect(includes, "", include_dir, found)
        known = _Answer(tuple(found), _state(found, include_dir))
        _answers[includes, include_dir] = known
    return known.headers


@dataclass(frozen=True)
class _Answer:
    """Headers, and the times and sizes they had when they were read."""

    headers: tuple[str, ...]
    state: tuple[tuple[int, int], ...] | None


_answers: dict[tuple[Includes, Path], _Answer] = {}
"""Many variants include the same headers; one entry for each list of includes there is."""


def _state(headers: Iterable[str], root: Path) -> tuple[tuple[int, int], ...] | None:
    """What changes when one of the headers is edited; None when one is gone."""
    try:
        found = [os.stat(f"{root}/{header}") for header in headers]  # noqa: PTH116 - thousands of calls
    except OSError:
        return None
    return tuple((status.st_mtime_ns, status.st_size) for status in found)


def _collect(includes: Includes, folder: str, root: Path, found: dict[str, None]) -> None:
    """Add what a file in `folder`, a path below `root`, includes."""
    for mark, name in includes:
        header = _resolve(name, folder if mark == '"' else "", root)
        if header is None and mark == '"':
            raise _missing(name, root)
        if header is not None and header not in found:
            found[header] = None
            body = (root / header).read_text(encoding="utf-8")
            _collect(tuple(_INCLUDE.findall(body)), header.rpartition("/")[0], root, found)


def _resolve(name: str, folder: str, root: Path) -> str | None:
    """The header `name` means, seen from a header in `folder`: its path below `root`, or None."""
    if ".." in name.split("/"):
        return None
    places = [f"{folder}/{name}", name] if folder else [name]
    return next((place for place in places if (root / place).is_file()), None)


def _missing(name: str, root: Path) -> KgenError:
    known = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.h*"))
    message = f'#include "{name}": no such header in templates/include'
    return KgenError(Diagnostic("K331", message, hint=choice_hint(name, known)))
