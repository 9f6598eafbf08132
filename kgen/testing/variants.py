"""Many variants at once: a sample of them, and their outcomes one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgen.testing.case import Outcome
from kgen.testing.runner import cases, check
from kgen.testing.sample import cover
from kgen.variants.model import Variant


def sampled(variants: Sequence[Variant]) -> list[Variant]:
    """A part of each operator's variants in which every pair of parameter values occurs."""
    by_op: dict[str, list[Variant]] = {}
    for variant in variants:
        by_op.setdefault(variant.op.name, []).append(variant)
    return [v for group in by_op.values() for v in cover(group, lambda variant: variant.params)]


def outcomes(variants: Sequence[Variant]) -> Iterator[Outcome]:
    """Every case of these variants, run."""
    for variant in variants:
        for case in cases(variant):
            yield check(case)
