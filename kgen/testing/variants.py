"""Many variants at once: which ones to test, and their outcomes one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.testing.case import Outcome
from kgen.testing.runner import cases, check
from kgen.testing.sample import cover
from kgen.variants.model import Variant


def choose(variants: Sequence[Variant], pattern: str | None = None, *, sample: bool = False) -> list[Variant]:
    """The variants whose names match (`*` and `?` stand for anything); with `sample`, a part of each
    operator's in which every pair of parameter values occurs.

    Raises KgenError (K301) where no name matches."""
    chosen = [v for v in variants if pattern is None or fnmatchcase(v.name, pattern)]
    if not chosen:
        hint = choice_hint(pattern or "", [v.name for v in variants][:8])
        raise KgenError(Diagnostic("K301", f"no variant of the build is named '{pattern}'", hint=hint))
    if not sample:
        return chosen
    by_op: dict[str, list[Variant]] = {}
    for variant in chosen:
        by_op.setdefault(variant.op.name, []).append(variant)
    return [v for group in by_op.values() for v in cover(group, lambda variant: variant.params)]


def outcomes(variants: Sequence[Variant]) -> Iterator[Outcome]:
    """Every case of these variants, run."""
    for variant in variants:
        for case in cases(variant):
            yield check(case)
