"""Jinja, set up for C++: strict about names, quiet about blank space, and its faults as diagnostics."""

from __future__ import annotations

import traceback
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound
from jinja2.exceptions import TemplateSyntaxError

from kgen.diagnostics import Diagnostic, KgenError, Source, Span, choice_hint
from kgen.render.origins import MarkLines


def expand_template(root: Path, name: str, names: dict[str, Any]) -> str:
    """The text of a template below `root`, with the markers of `kgen.render.origins` in it.

    Raises KgenError with the line of the template: K332 where there is no such template, K333 where
    it does not parse, K334 where it fails while it is filled in.
    """
    try:
        return _environment(root).get_template(name).render(names)
    except TemplateNotFound as error:
        known = sorted(str(p.relative_to(root)) for p in root.rglob("*.j2"))
        missing = str(error.name or name)
        message = f"there is no template {missing}"
        raise KgenError(Diagnostic("K332", message, hint=choice_hint(missing, known))) from error
    except TemplateSyntaxError as error:
        span = _line_span(root, error.name or name, error.lineno)
        raise KgenError(Diagnostic("K333", error.message or "bad syntax", span)) from error
    except KgenError as error:
        place = _failing_line(root, error)
        raise KgenError(
            replace(d, span=place if d.span is None else d.span) for d in error.diagnostics
        ) from error
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise KgenError(Diagnostic("K334", _message(error), _failing_line(root, error))) from error


def _message(error: Exception) -> str:
    text = error.message if isinstance(error, TemplateError) else None
    return text or f"{type(error).__name__}: {error}"


@lru_cache(maxsize=8)
def _environment(root: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader(root),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        extensions=[MarkLines],
    )


def _failing_line(root: Path, error: BaseException) -> Span | None:
    """The innermost line of a template on the error's way up (Jinja maps its frames back)."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root) and frame.lineno is not None:
            return _line_span(root, path.relative_to(root).as_posix(), frame.lineno)
    return None


def _line_span(root: Path, name: str, line: int) -> Span:
    """The visible part of a template's line."""
    try:
        text = (root / name).read_text(encoding="utf-8")
    except OSError:
        text = ""
    source = Source(f"templates/{name}", text)
    shown = source.line(line)
    start = len(shown) - len(shown.lstrip()) + 1
    return Span(source, line, start, line, max(start, len(shown.rstrip())) + 1)
