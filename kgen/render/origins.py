"""From a line of rendered text back to the template line it came from.

While a template is lexed, a marker goes before every piece of literal text and every printed
expression, on every line of it; macros and included files carry their own. Rendering copies the
markers along, and `strip` takes them out again and reads off where each line began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from kgen.render.model import LineOrigin

_OPEN, _CLOSE = "\ue000", "\ue001"
Place = tuple[str, int]
_MARKER = re.compile(f"{_OPEN}([^{_CLOSE}]*):([0-9]+){_CLOSE}")


class MarkLines(Extension):
    """Jinja extension that writes the markers."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        name = stream.name or "template"
        for token in stream:
            if token.type == "data":
                yield Token(token.lineno, "data", _mark_text(token.value, name, token.lineno))
            else:
                if token.type == "variable_begin":
                    yield Token(token.lineno, "data", _marker(name, token.lineno))
                yield token


def strip(marked: str, first_line: int = 1) -> tuple[str, tuple[LineOrigin, ...]]:
    """The text without markers, blank edges and trailing blanks, ending in one newline; and where
    each of its lines came from, counted from `first_line`. A line printed whole by an expression
    of many lines counts as coming from the line of that expression."""
    lines = [_read(line) for line in marked.split("\n")]
    blank = next((i for i, (text, _, _) in enumerate(lines) if text), 0)
    origins: list[LineOrigin] = []
    before: Place | None = None
    for number, (text, first, last) in enumerate(lines, first_line - blank):
        place, before = first or before, last or before
        if text and place is not None:
            origins.append(LineOrigin(number, *place))
    return "\n".join([text for text, _, _ in lines]).strip("\n") + "\n", tuple(origins)


@lru_cache(maxsize=1 << 14)
def _read(line: str) -> tuple[str, Place | None, Place | None]:
    """The text of a marked line, the place of its first visible character, and the last place
    named on it. Variants of one operator share most of their lines."""
    pieces = _MARKER.split(line)  # a text, then the template and the line of a marker, and so on
    places = [(name, int(number)) for name, number in zip(pieces[1::3], pieces[2::3], strict=True)]
    if not places:
        return line.rstrip(), None, None
    blank = list(takewhile(lambda text: not text.strip(), pieces[:-1:3]))
    return "".join(pieces[::3]).rstrip(), places[len(blank) - 1] if blank else None, places[-1]


def _mark_text(text: str, name: str, lineno: int) -> str:
    lines = text.split("\n")
    return "\n".join(_marker(name, lineno + i) + line for i, line in enumerate(lines))


def _marker(name: str, lineno: int) -> str:
    return f"{_OPEN}{name}:{lineno}{_CLOSE}"
