"""From a line of rendered text back to the template line it came from.

While a template is lexed, a marker goes before every piece of literal text and every printed
expression, on every line of it; macros and included files carry their own. Rendering copies the
markers along, and `strip` takes them out again and reads off where each line began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from kgen.render.model import LineOrigin

_OPEN, _CLOSE = "\ue000", "\ue001"
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


def strip(marked: str) -> tuple[str, tuple[LineOrigin, ...]]:
    """The text without markers, without trailing blanks and ending in one newline; and where each
    line that a template wrote came from. A line printed whole by an expression of many lines
    counts as coming from the line of that expression."""
    lines: list[str] = []
    origins: list[LineOrigin] = []
    last: tuple[str, str] | None = None
    for number, line in enumerate(marked.rstrip().split("\n"), start=1):
        first, last = _places(line, last)
        text = _MARKER.sub("", line).rstrip()
        lines.append(text)
        if text and first is not None:
            origins.append(LineOrigin(number, first[0], int(first[1])))
    return "\n".join(lines).rstrip() + "\n", tuple(origins)


def _places(line: str, last: tuple[str, str] | None) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """The place of the first visible character of a line, and the last place named on it."""
    first = last
    visible = False
    end = 0
    for match in _MARKER.finditer(line):
        visible = visible or bool(line[end : match.start()].strip())
        last = (match[1], match[2])
        if not visible:
            first = last
        end = match.end()
    return first, last


def _mark_text(text: str, name: str, lineno: int) -> str:
    lines = text.split("\n")
    return "\n".join(_marker(name, lineno + i) + line for i, line in enumerate(lines))


def _marker(name: str, lineno: int) -> str:
    return f"{_OPEN}{name}:{lineno}{_CLOSE}"
