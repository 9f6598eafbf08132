"""Choosing variants by name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.variants.model import Variant

SHOWN = 8


def matching(variants: Sequence[Variant], pattern: str | None) -> list[Variant]:
    """The variants whose names match (`*` and `?` stand for anything); all of them for None.

    Raises KgenError (K301) where no name matches."""
    chosen = [v for v in variants if pattern is None or fnmatchcase(v.name, pattern)]
    if chosen or pattern is None:
        return chosen
    hint = choice_hint(pattern, [v.name for v in variants][:SHOWN])
    raise KgenError(Diagnostic("K301", f"no variant of the build is named '{pattern}'", hint=hint))
