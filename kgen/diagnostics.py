"""What went wrong, where, and what to do about it.

Every fault a user can cause ends as one or more `Diagnostic`s inside a `KgenError`.
Imports nothing of kgen, so every room may use it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

TAB_WIDTH = 4
SHOWN_WIDTH = 120
"""Characters of a line that an excerpt shows at most."""


@dataclass(frozen=True)
class Source:
    """A text a span points into. `name` is what the user typed, never made absolute."""

    name: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """The 1-based line, without its newline; empty past the end."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """A half-open range of a source. Lines and columns are 1-based, as editors count."""

    source: Source
    line: int
    col: int
    end_line: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.col}"

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.line, self.col, other.end_line, other.end_col)


@dataclass(frozen=True)
class Diagnostic:
    """One fault. `code` is stable (`K1xx` syntax, `K2xx` spec, `K3xx` matrix, `K4xx` build,
    `K5xx` call, `K6xx` environment, `K7xx` runtime, `K8xx` engine); `hint` says what to do, with
    the nearest valid choice."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return render(self)


class KgenError(Exception):
    """The one exception kgen raises for faults a user can cause; carries every diagnostic."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        one = isinstance(diagnostics, Diagnostic)
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if one else tuple(diagnostics)  # type: ignore[assignment, arg-type]
        )
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n\n".join(render(d) for d in self.diagnostics)


class Collector:
    """Gathers the diagnostics of one run, so that all faults of a file are told at once."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    def add(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        hint: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._found.append(Diagnostic(code, message, span, hint, notes))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._found.extend(diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self._found, key=_position))

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self) -> None:
        """Raise everything collected so far, in the order of the text."""
        if self._found:
            raise KgenError(self.diagnostics)


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice the user most likely meant, or None when nothing is close."""
    close = difflib.get_close_matches(str(word), list(choices), n=1, cutoff=0.6)
    return close[0] if close else None


def choice_hint(word: str, choices: Sequence[str]) -> str:
    """`did you mean 'x'?` where one is near, else the list of what is allowed."""
    close = nearest(word, choices)
    listed = ", ".join(choices) if choices else "nothing"
    return f"did you mean '{close}'? (choices: {listed})" if close else f"choices: {listed}"


def render(diagnostic: Diagnostic) -> str:
    """`file:line:col: error[K201]: message`, the line with a caret, then the hint."""
    span = diagnostic.span
    where = f"{span}: " if span else ""
    lines = [f"{where}error[{diagnostic.code}]: {diagnostic.message}"]
    if span is not None:
        lines += _excerpt(span)
    if diagnostic.hint:
        lines.append(f"  hint: {diagnostic.hint}")
    lines += [f"  note: {note}" for note in diagnostic.notes]
    return "\n".join(lines)


def _excerpt(span: Span) -> list[str]:
    text = span.source.line(span.line)
    shown = text.expandtabs(TAB_WIDTH)
    start = len(text[: span.col - 1].expandtabs(TAB_WIDTH))
    last = span.end_col - 1 if span.end_line == span.line else len(text)
    width = max(1, len(text[:last].expandtabs(TAB_WIDTH)) - start)
    if start > SHOWN_WIDTH - 20:  # far along a long line: show the part around the caret
        shown, start = "..." + shown[start - 40 :], 43
    if len(shown) > SHOWN_WIDTH:
        shown = shown[: SHOWN_WIDTH - 3] + "..."
    width = min(width, max(1, len(shown) - start))
    number = str(span.line)
    return [f"  {number} | {shown}".rstrip(), f"  {' ' * len(number)} | {' ' * start}{'^' * width}"]


def _position(diagnostic: Diagnostic) -> tuple[str, int, int]:
    span = diagnostic.span
    return (span.source.name, span.line, span.col) if span else ("", 0, 0)
