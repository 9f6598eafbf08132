"""Which headers of templates/include a rendered source needs, transitively.

Every `#include` is followed, whatever `#if` it stands under: a header too many costs a rebuild,
a header too few costs a stale kernel.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath

from kgen.diagnostics import Diagnostic, KgenError, choice_hint

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)[">]', re.MULTILINE)


def headers_of(text: str, include_dir: Path) -> tuple[str, ...]:
    """The headers under `include_dir` that `text` includes, each once, in the order a compiler
    opens them, as paths relative to `include_dir`.

    Names not found there are the system's, except that a quoted name which is nowhere raises K331.
    """
    found: dict[str, None] = {}
    _collect(text, None, include_dir, found)
    return tuple(found)


def _collect(text: str, here: PurePosixPath | None, include_dir: Path, found: dict[str, None]) -> None:
    for quoted, name in _includes(text):
        header = _resolve(name, here if quoted else None, include_dir)
        if header is None:
            if quoted:
                raise _missing(name, include_dir)
            continue
        if header not in found:
            found[header] = None
            body = (include_dir / header).read_text(encoding="utf-8")
            _collect(body, PurePosixPath(header).parent, include_dir, found)


@cache
def _includes(text: str) -> tuple[tuple[bool, str], ...]:
    return tuple((mark == '"', name) for mark, name in _INCLUDE.findall(text))


def _resolve(name: str, here: PurePosixPath | None, include_dir: Path) -> str | None:
    """The header `name` means, seen from a header in folder `here`."""
    places = [PurePosixPath(name)] if here is None else [here / name, PurePosixPath(name)]
    for place in places:
        if ".." not in place.parts and (include_dir / place).is_file():
            return str(place)
    return None


def _missing(name: str, include_dir: Path) -> KgenError:
    known = sorted(str(PurePosixPath(p.relative_to(include_dir))) for p in include_dir.rglob("*.h*"))
    return KgenError(
        Diagnostic(
            "K331", f'#include "{name}": no such header in templates/include', hint=choice_hint(name, known)
        )
    )
