"""Whether the tensors of a call share memory where one of them is written.

Most pairs lie apart as ranges of bytes, which callers see for themselves. Where ranges meet, as those of
keys and values interleaved in one tensor do, the strides decide: two tensors that repeat at one distance
are disjoint where a period of one lies beside that of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.dispatch.errors import fault
from kgen.dispatch.model import View
from kgen.dispatch.paths import Path
from kgen.manifest import Policy
from kgen.semantics import DTYPES


@dataclass(frozen=True)
class Region:
    """The bytes of a tensor: runs of `run` bytes that repeat along (stride, extent), largest stride first.
    `of`: what there are `count` of along its outermost axis, `step` bytes apart, where that may change."""

    run: int
    repeats: tuple[tuple[int, int], ...] = ()
    of: str = ""
    count: int = 0
    step: int = 0

    @property
    def span(self) -> int:
        """Bytes from the first to the last."""
        return self.run + sum(stride * (extent - 1) for stride, extent in self.repeats)

    @property
    def path(self) -> Path | None:
        """How the span follows from what may change."""
        return Path(self.of, (), self.step, self.span - self.step * self.count) if self.of else None

    def at(self, count: int) -> Region:
        """The bytes of a tensor that has `count` along its outermost axis, above 1 as here."""
        if self.repeats:
            return replace(self, repeats=((self.step, count), *self.repeats[1:]), count=count)
        return replace(self, run=self.step * count, count=count)

    def within(self, period: int) -> Region:
        """The part of one period: without the repeats at that distance."""
        return Region(self.run, tuple(each for each in self.repeats if each[0] != period))


@dataclass(frozen=True)
class Pair:
    """A tensor that is written and another one of the call."""

    written: str
    other: str
    first: Region
    second: Region

    def at(self, extents: Mapping[str, int]) -> Pair:
        """The pair of a call with other extents."""
        first, second = (r.at(extents[r.of]) if r.of in extents else r for r in (self.first, self.second))
        return Pair(self.written, self.other, first, second)


def region(view: View, of: str = "") -> Region:
    """The bytes of a tensor that has elements; `of`: what may change along its first axis, the outermost."""
    size = DTYPES[view.dtype]
    axes = sorted((s * size, n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1 and s > 0)
    run = size
    repeats: list[tuple[int, int]] = []
    for stride, extent in axes:
        if stride == run and not repeats:
            run *= extent
        else:
            repeats.append((stride, extent))
    found = Region(run, tuple(reversed(repeats)))
    return replace(found, of=of, count=view.shape[0], step=view.strides[0] * size) if of else found


def pairs_of(
    policy: Policy, tensors: Mapping[str, View | None], moving: Mapping[str, str]
) -> tuple[Pair, ...]:
    """The pairs of a call whose memory must be disjoint: what it writes, and all else that it is given.
    `moving`: what may change along the first axis of some."""
    there = {name: view for name, view in tensors.items() if view and 0 not in view.shape}
    regions = {name: region(view, moving.get(name, "")) for name, view in there.items()}
    written = [rule.name for rule in policy.arguments if rule.access != "read" and rule.name in regions]
    return tuple(
        Pair(name, other, regions[name], regions[other])
        for place, name in enumerate(written)
        for other in regions
        if other != name and other not in written[:place]
    )


def disjoint(first: Region, second: Region, apart: int) -> bool:
    """Whether no byte belongs to both, the second starting `apart` bytes after the first; False where their
    strides do not say."""
    if apart >= first.span or -apart >= second.span:
        return True
    period = max((each[0] for each in (*first.repeats[:1], *second.repeats[:1])), default=0)
    inner = first.within(period), second.within(period)
    if period == 0 or max(inner[0].span, inner[1].span) > period:
        return False
    place = apart % period
    return disjoint(*inner, place) and disjoint(*inner, place - period)


def refuse_overlap(op: str, pair: Pair, apart: int) -> None:
    """Raise KgenError (K513) unless the pair is disjoint."""
    if not disjoint(pair.first, pair.second, apart):
        message = f"{op}: {pair.written} is written and shares memory with {pair.other}"
        raise fault("K513", message, "give each a tensor, or a part of one, of its own")
