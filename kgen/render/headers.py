"""Which headers of templates/include a rendered source needs, transitively.

Every `#include` is followed, whatever `#if` it stands under: a header too many costs a rebuild,
a header too few costs a stale kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
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
    return _closure(_includes(text), include_dir, tuple(sorted(_state(str(include_dir)))))


def _includes(text: str) -> Includes:
    return tuple(_INCLUDE.findall(text))


@lru_cache(maxsize=256)
def _closure(includes: Includes, root: Path, state: tuple[object, ...]) -> tuple[str, ...]:
    """What `headers_of` answers while the folder is in this state."""
    found: dict[str, None] = {}
    _collect(includes, "", root, found)
    return tuple(found)


def _state(folder: str) -> Iterator[tuple[str, int, int]]:
    """Every file below a folder, with what changes when it is edited."""
    with os.scandir(folder) as items:
        for item in items:
            if item.is_dir():
                yield from _state(item.path)
            else:
                status = item.stat()
                yield item.path, status.st_mtime_ns, status.st_size


def _collect(includes: Includes, folder: str, root: Path, found: dict[str, None]) -> None:
    """Add what a file in `folder`, a path below `root`, includes."""
    for mark, name in includes:
        header = _resolve(name, folder if mark == '"' else "", root)
        if header is None and mark == '"':
            raise _missing(name, root)
        if header is not None and header not in found:
            found[header] = None
            body = (root / header).read_text(encoding="utf-8")
            _collect(_includes(body), header.rpartition("/")[0], root, found)


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
