"""Which of several kernels is the fastest, where measurements scatter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgen.bench.measure import Spread, spread


def spreads_of(times: Mapping[str, Sequence[float]]) -> Mapping[str, Spread]:
    """Median and quartiles of each candidate's times."""
    return {name: spread(one) for name, one in times.items()}


def winner(spreads: Mapping[str, Spread], rule: str) -> str:
    """The candidate to take in place of `rule`, what the operator's own rules choose: one whose median is
    better than that of `rule` by more than the quartiles of either lie apart. Of several, the fastest; of
    those as fast as it by the same measure, the first. `rule` itself where there is none."""
    ahead = [name for name in spreads if _beats(spreads[name], spreads[rule])]
    if not ahead:
        return rule
    best = min(ahead, key=lambda name: spreads[name].median)
    return next(name for name in ahead if not _beats(spreads[best], spreads[name]))


def _beats(one: Spread, other: Spread) -> bool:
    """Whether one is faster than the other by more than either scatters."""
    return other.median - one.median > max(one.high - one.low, other.high - other.low)
