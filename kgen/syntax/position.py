"""Where the characters of a scalar's text stand in the file it came from.

YAML folds lines, drops indentation and undoes quotes, so the fifth character of an expression
need not be the fifth character after its start. `Positions` finds it again.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from kgen.diagnostics import Source, Span


@lru_cache(maxsize=32)
def line_starts(source: Source) -> tuple[int, ...]:
    """The offset of the first character of each line."""
    starts = [0]
    for line in source.text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    if len(starts) > 1 and not source.text.endswith(("\n", "\r")):
        starts.pop()
    return tuple(starts)


def span_at(source: Source, start: int, end: int) -> Span:
    """The span of the characters `start` to `end` (exclusive) of a source."""
    starts = line_starts(source)
    first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end)) - 1
    return Span(source, first + 1, start - starts[first] + 1, last + 1, max(start, end) - starts[last] + 1)


def offset_of(source: Source, line: int, col: int) -> int:
    """The offset of a 1-based line and column, inside the text."""
    starts = line_starts(source)
    start = starts[min(line, len(starts)) - 1]
    return min(start + col - 1, len(source.text))


class Positions:
    """Maps offsets in `text` to spans of the file, where `span` covers the scalar as written."""

    def __init__(self, text: str, span: Span) -> None:
        self._source = span.source
        begin = offset_of(span.source, span.line, span.col)
        end = offset_of(span.source, span.end_line, span.end_col)
        self._offsets = _align(text, span.source.text[begin:end], begin)
        self._end = max(begin, end)

    @property
    def following(self) -> str:
        """The character of the file after the scalar; empty at its end."""
        return self._source.text[self._end : self._end + 1]

    def span(self, start: int, end: int) -> Span:
        """The span of `text[start:end]`; past the end of the text it is the place after it."""
        if not self._offsets:
            return span_at(self._source, self._end, self._end + 1)
        if start >= len(self._offsets):
            after = self._offsets[-1] + 1
            return span_at(self._source, after, after + 1)
        last = min(max(end, start + 1), len(self._offsets)) - 1
        return span_at(self._source, self._offsets[start], self._offsets[last] + 1)


def _align(text: str, raw: str, base: int) -> list[int]:
    """The offset in the file of each character of `text`, which was written as `raw`."""
    if raw.startswith(text):
        return list(range(base, base + len(text)))
    quote = raw[0] if raw[:1] in ("'", '"') else ""
    at = raw.find("\n") + 1 if raw[:1] in ("|", ">") else len(quote)
    offsets = []
    for char in text:
        while at < len(raw) and raw[at] != char and (raw[at].isspace() or (quote == '"' and raw[at] == "\\")):
            at += 1
        offsets.append(base + min(at, max(len(raw) - 1, 0)))
        if char.isspace():
            continue  # one blank may stand for a line break and its indentation
        at += 2 if quote == "'" == char else 1
    return offsets
