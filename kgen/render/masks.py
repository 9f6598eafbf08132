"""The mask and score of a variant as a template sees them: C++ text, and the loops over keys.

Arguments are members of a struct `v`, as one sequence sees them: `v.window` is a number, and so is an
array over `batch`; `v.slope[head]`, `v.key_document[kv]` and `v.query_document[q]` are indexed by head and
by absolute positions. `templates/cpu/variant.j2` and its like make that struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.algebra.bounds import Bounds
from kgen.algebra.simplify import simplify
from kgen.manifest import VariantArg
from kgen.masks.formula import REAL_CALLS, is_whole
from kgen.masks.regions import BOUNDS, KV_BEGIN, KV_END, regions
from kgen.masks.segments import TILE, bounds_of, segments
from kgen.masks.spread import Q_HIGH, Q_LOW
from kgen.render.cpp import print_cpp
from kgen.render.index import Place, place_of
from kgen.spec.model import VariantSpec
from kgen.syntax.ast import Bool, Call, Compare, Expr, Index, Int, Name, names_of, rebuild, substitute
from kgen.variants.policy import rule_of

STRUCT = "v"


@dataclass(frozen=True)
class Argument:
    """An argument as a member of `v`: `ctype` is the type of its values, `word` its place in the block."""

    name: str
    axis: str
    ctype: str
    word: str


@dataclass(frozen=True)
class Line:
    """A value computed on the way to the segments, as C++."""

    name: str
    text: str


@dataclass(frozen=True)
class Loop:
    """Keys from `begin` to before `end`, as C++; `full`: every pair is visible, and whole tiles of them."""

    begin: str
    end: str
    full: bool


@dataclass(frozen=True)
class Loops:
    """The segments of a tile of queries: `steps` to be declared first, then the loops in order.

    `everything`: one loop over all the keys there are, each of which every query sees."""

    steps: tuple[Line, ...]
    segments: tuple[Loop, ...]
    everything: bool

    @property
    def runs(self) -> tuple[Loop, ...]:
        """The segments with those that follow on each other joined, for a kernel that tests every pair."""
        found: list[Loop] = []
        for one in self.segments:
            if found and found[-1].end == one.begin:
                found[-1] = Loop(found[-1].begin, one.end, found[-1].full and one.full)
            else:
                found.append(one)
        return tuple(found)


class Masks:
    """The functions of a template's context that speak of the variant's mask and score."""

    def __init__(self, variant: VariantSpec) -> None:
        self._variant = variant
        rule = rule_of(variant)
        self.args = tuple(self._argument(arg) for arg in rule.args)
        self._floats = frozenset(f"{STRUCT}.{a.name}" for a in rule.args if a.kind == "float")

    def _argument(self, arg: VariantArg) -> Argument:
        """A number in a mask is compared in double, as the language has it; a score is a float."""
        mask = self._variant.mask
        exact = mask is not None and arg.name in names_of(mask)
        if arg.axis:
            ctype = {"int": "int32_t", "float": "float"}[arg.kind]
        else:
            ctype = {"int": "int64_t", "float": "double" if exact else "float"}[arg.kind]
        return Argument(arg.name, arg.axis, ctype, f"v_{arg.name}")

    def mask(self, *, q: Place, kv: Place, head: Place = 0, batch: Place = 0) -> str:
        """Whether a pair is visible; empty where the mask hides nothing."""
        if self._variant.mask is None:
            return ""
        places = {"q": place_of(q), "kv": place_of(kv), "head": place_of(head), "batch": place_of(batch)}
        expr = self._placed(self._variant.mask, places)
        bounds = self._bounds(places)
        shown = simplify(expr, bounds, self._floats)
        return "" if shown == Bool(True) else print_cpp(shown, bounds)

    def score(self, *, s: str, q: Place, kv: Place, head: Place = 0, batch: Place = 0) -> str:
        """The score in natural units, as s is; empty where it is s itself. A kernel that takes powers of 2
        multiplies by log2(e) after it."""
        if self._variant.score is None:
            return ""
        places = {"q": place_of(q), "kv": place_of(kv), "head": place_of(head), "batch": place_of(batch)}
        expr = self._real(self._placed(self._variant.score, {**places, "s": Name(s)}), self._floats | {s})
        bounds = self._bounds(places)
        return print_cpp(simplify(expr, bounds, self._floats | {s}), bounds, real="float")

    def segments(
        self, *, q_lo: Place, q_hi: Place, kv_end: Place, kv_begin: Place = 0, tile: Place = 1
    ) -> Loops:
        """The loops over the keys from kv_begin to before kv_end for the queries from q_lo to q_hi, in tiles
        of `tile` keys (see `kgen.masks.segments`)."""
        places = {
            Q_LOW.name: place_of(q_lo),
            Q_HIGH.name: place_of(q_hi),
            KV_BEGIN.name: place_of(kv_begin),
            KV_END.name: place_of(kv_end),
            TILE.name: place_of(tile),
        }
        begin, size = (
            value if isinstance(value := places[name.name], Int) else name for name in (KV_BEGIN, TILE)
        )
        queries = Q_LOW, Q_LOW if q_lo == q_hi else Q_HIGH
        found = segments(regions(self._variant), begin, size, queries)
        limits = {
            **bounds_of(found, {**BOUNDS, TILE.name: (1, None)}),
            **self._bounds({}),
            **_from(0, places[KV_BEGIN.name]),
            **_from(0, places[KV_END.name]),
            **_from(1, places[TILE.name]),
        }

        def text(expr: Expr) -> str:
            return print_cpp(simplify(self._placed(expr, places), limits), limits)

        steps = tuple(Line(step.name, text(step.value)) for step in found.steps)
        loops = tuple(Loop(text(one.begin), text(one.end), one.full) for one in found.segments)
        values = {line.name: line.text for line in steps}
        all_keys = Loop(text(KV_BEGIN), text(KV_END), full=True)
        resolved = tuple(replace(one, end=values.get(one.end, one.end)) for one in loops)
        return Loops(steps, loops, resolved == (all_keys,))

    def _placed(self, expr: Expr, places: Mapping[str, Expr]) -> Expr:
        """Positions and arguments by what they are in C++."""
        members: dict[str, Expr] = {arg.name: Name(f"{STRUCT}.{arg.name}") for arg in self.args}

        def change(part: Expr) -> Expr:
            if isinstance(part, Index) and part.index == Name("batch"):
                return substitute(part.base, members)
            if isinstance(part, Name):
                return {**places, **members}.get(part.name, part)
            return rebuild(part, change)

        return change(expr)

    def _real(self, expr: Expr, floats: frozenset[str]) -> Expr:
        """Ints as floats where a function of floats takes them: not every target computes it in double."""
        inner = rebuild(expr, lambda part: self._real(part, floats))
        if isinstance(inner, Call) and inner.function in REAL_CALLS - {"float"}:
            args = (Call("float", (arg,)) if is_whole(arg, floats) else arg for arg in inner.args)
            return Call(inner.function, tuple(args))
        return inner

    def _bounds(self, places: Mapping[str, Expr]) -> Bounds:
        """Keys, heads and sequences are not negative; what divides is above 0."""
        found: dict[str, tuple[int | None, int | None]] = {}
        for name in ("kv", "head", "batch"):
            found.update(_from(0, places.get(name, Int(0))))
        for guard in self._variant.guards:
            match guard.check:
                case Compare(ops=(">",), operands=(Name(name=name), Int(value=0))):
                    found[f"{STRUCT}.{name}"] = (1, None)
        return found


def _from(least: int, place: Expr) -> Mapping[str, tuple[int | None, int | None]]:
    """The limit of a place that is a bare name."""
    return {place.name: (least, None)} if isinstance(place, Name) else {}
