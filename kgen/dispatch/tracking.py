"""Expressions followed along their scalars: a value, how it moves, and how far that holds.

One pass over an expression gives its value and, while it is linear in one scalar, its slope; on the way
every comparison, quotient and extreme narrows the interval of that scalar on which it goes as it went.
What is not followed (products of scalars, floats, arrays, expressions over two scalars at once) pins
the scalars in it to the values they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgen.arithmetic import BINARY, FUNCTIONS, INT_MAX, INT_MIN, check_int, equal, integer, truth
from kgen.dispatch import codes
from kgen.manifest import Code, Scalar
from kgen.semantics import evaluate

Interval = tuple[int, int]
"""Both ends belong to it."""


@dataclass(frozen=True)
class Tracked:
    """A value that moves by `slope` where the scalar `of` moves by 1; slope 0: it stays."""

    value: Any
    of: str = ""
    slope: int = 0


class Tracker:
    """Follows expressions, which have a value here, over `names`, of which the ints `scalars` may change.

    `intervals`: of each scalar, where all that was followed so far goes the same way.
    """

    def __init__(self, names: Mapping[str, Scalar], scalars: Mapping[str, int]) -> None:
        self.intervals: dict[str, Interval] = dict.fromkeys(scalars, (INT_MIN, INT_MAX))
        self._scalars = dict(scalars)
        self._names: dict[str, Scalar] = {**names, **scalars}

    def pin(self, *names: str) -> None:
        """Let these scalars have no other value; none: let none of them."""
        for name in names or self._scalars:
            self.intervals[name] = (self._scalars[name], self._scalars[name])

    def constant(self, code: Code) -> Scalar:
        """The value of an expression, the same all over the intervals."""
        tracked = self.follow(code)
        if tracked.slope:
            self.pin(tracked.of)
        value: Scalar = tracked.value
        return value

    def follow(self, code: Code) -> Tracked:
        """An expression's value and slope."""
        if not self._varying(code):
            return Tracked(evaluate(code, self._names))
        head = code[1] if code[0] == "call" else code[0]
        return _FORMS.get(head, _pinned)(self, code)

    def within(self, tracked: Tracked, low: int, high: int) -> None:
        """Narrow the interval to where low <= value <= high, as is so here."""
        if not tracked.slope:
            return
        least, most, step = low - tracked.value, high - tracked.value, tracked.slope
        if step < 0:
            least, most, step = -most, -least, -step
        here, (first, last) = self._scalars[tracked.of], self.intervals[tracked.of]
        self.intervals[tracked.of] = max(first, here - -least // step), min(last, here + most // step)

    def moved(self, value: Any, like: Tracked, slope: int) -> Tracked:
        """A value linear in the scalar of another one, while it fits 64 bits."""
        found = Tracked(value, like.of, slope)
        self.within(found, INT_MIN, INT_MAX)
        return found

    def fixed(self, tracked: Tracked) -> Tracked:
        """The value with its scalar pinned."""
        if tracked.slope:
            self.pin(tracked.of)
        return Tracked(tracked.value)

    def difference(self, left: Tracked, right: Tracked) -> Tracked:
        """left - right, of two ints, without the limit of 64 bits."""
        if left.slope and right.slope and left.of != right.of:
            self.pin(left.of, right.of)
            return Tracked(left.value - right.value)
        return Tracked(left.value - right.value, left.of or right.of, left.slope - right.slope)

    def _varying(self, code: Code) -> list[str]:
        names = codes.names_in(code)
        return [name for name in self._scalars if name in names]

    def pinned(self, code: Code) -> Tracked:
        """The value of what is not followed."""
        self.pin(*self._varying(code))
        return Tracked(evaluate(code, self._names))

    def name(self, code: Code) -> Tracked:
        return Tracked(self._scalars[code[1]], code[1], 1)


def _pinned(track: Tracker, code: Code) -> Tracked:
    return track.pinned(code)


def _name(track: Tracker, code: Code) -> Tracked:
    return track.name(code)


def _ints(*operands: Tracked) -> bool:
    return all(isinstance(each.value, int) and not isinstance(each.value, bool) for each in operands)


def _sum(track: Tracker, code: Code) -> Tracked:
    left, right = track.follow(code[1]), track.follow(code[2])
    value = BINARY[code[0]](left.value, right.value)
    if not _ints(left, right):
        track.fixed(left), track.fixed(right)
        return Tracked(value)
    turned = right if code[0] == "-" else replace(right, value=-right.value, slope=-right.slope)
    found = track.difference(left, turned)
    return track.moved(value, found, found.slope)


def _product(track: Tracker, code: Code) -> Tracked:
    left, right = track.follow(code[1]), track.follow(code[2])
    if not _ints(left, right) or (left.slope and right.slope):
        left, right = track.fixed(left), track.fixed(right)
    slope = left.slope * right.value if left.slope else right.slope * left.value
    return track.moved(BINARY["*"](left.value, right.value), left if left.slope else right, slope)


def _negative(track: Tracker, code: Code) -> Tracked:
    operand = track.follow(code[1])
    value = check_int(-operand.value) if _ints(operand) else -operand.value
    return track.moved(value, operand, -operand.slope)


def _quotient(track: Tracker, code: Code) -> Tracked:
    """`//` and `%`, over an interval on which the quotient stays."""
    return _divided(track, code[0], track.follow(code[1]), track.follow(code[2]))


def _divided(track: Tracker, symbol: str, left: Tracked, right: Tracked) -> Tracked:
    divisor = integer(track.fixed(right).value)
    value = BINARY[symbol](left.value, divisor)
    if divisor < 0:
        return Tracked(BINARY[symbol](track.fixed(left).value, divisor))
    quotient = left.value // divisor
    track.within(left, quotient * divisor, quotient * divisor + divisor - 1)
    return replace(left, value=value) if symbol == "%" else Tracked(value)


def _rounded(track: Tracker, code: Code) -> Tracked:
    """`ceil_div` and `align`, over an interval on which they stay."""
    left, right = track.follow(code[2]), track.fixed(track.follow(code[3]))
    unit = integer(right.value)
    value = FUNCTIONS[code[1]](left.value, unit)
    if unit < 0:
        return Tracked(FUNCTIONS[code[1]](track.fixed(left).value, unit))
    above = -(-left.value // unit) * unit
    track.within(left, above - unit + 1, above)
    return Tracked(value)


def _extreme(track: Tracker, code: Code) -> Tracked:
    """`min` and `max`, while the same operand wins."""
    operands = [track.follow(part) for part in code[2:]]
    value = FUNCTIONS[code[1]](*(each.value for each in operands))
    if not _ints(*operands):
        for each in operands:
            track.fixed(each)
        return Tracked(value)
    best = next(each for each in operands if each.value == value)
    for each in operands:
        ahead = track.difference(best, each) if code[1] == "max" else track.difference(each, best)
        track.within(ahead, 0, 2 * INT_MAX)
    return best


def _holds(track: Tracker, symbol: str, left: Tracked, right: Tracked) -> bool:
    """A comparison, while it stays what it is."""
    result: bool = BINARY[symbol](left.value, right.value)
    if not _ints(left, right):
        track.fixed(left), track.fixed(right)
        return result
    apart = track.difference(left, right)
    low, high = _side(symbol, result, apart.value)
    track.within(apart, low, high)
    return result


_FAR = 2**65
_UNDER, _UP_TO, _FROM, _OVER = (-_FAR, -1), (-_FAR, 0), (0, _FAR), (1, _FAR)
_SIDES: Mapping[str, tuple[Interval, Interval]] = {  # of left - right, where it holds and where it does not
    "<": (_UNDER, _FROM),
    "<=": (_UP_TO, _OVER),
    ">": (_OVER, _UP_TO),
    ">=": (_FROM, _UNDER),
}


def _side(symbol: str, result: bool, apart: int) -> Interval:
    if symbol in _SIDES:
        return _SIDES[symbol][not result]
    return (0, 0) if apart == 0 else _OVER if apart > 0 else _UNDER


def _comparison(track: Tracker, code: Code) -> Tracked:
    return Tracked(_holds(track, code[0], track.follow(code[1]), track.follow(code[2])))


def _chain(track: Tracker, code: Code) -> Tracked:
    left = track.follow(code[2][0])
    for symbol, operand in zip(code[1], code[2][1:], strict=True):
        right = track.follow(operand)
        if not _holds(track, symbol, left, right):
            return Tracked(False)
        left = right
    return Tracked(True)


def _member(track: Tracker, code: Code) -> Tracked:
    item = track.follow(code[1])
    for choice in code[2]:
        other = track.follow(choice)
        if _holds(track, "==", item, other) if _ints(item, other) else equal(item.value, other.value):
            return Tracked(True)
    return Tracked(False)


def _truth(track: Tracker, code: Code) -> bool:
    return truth(track.follow(code).value)


_FORMS: Mapping[str, Callable[[Tracker, Code], Tracked]] = {
    "name": _name,
    "+": _sum,
    "-": _sum,
    "*": _product,
    "neg": _negative,
    **dict.fromkeys(("//", "%"), _quotient),
    **dict.fromkeys(("ceil_div", "align"), _rounded),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _comparison),
    "compare": _chain,
    "in": _member,
    "not": lambda track, code: Tracked(not _truth(track, code[1])),
    "and": lambda track, code: Tracked(_truth(track, code[1]) and _truth(track, code[2])),
    "or": lambda track, code: Tracked(_truth(track, code[1]) or _truth(track, code[2])),
    "implies": lambda track, code: Tracked(not _truth(track, code[1]) or _truth(track, code[2])),
    "if": lambda track, code: track.follow(code[2] if _truth(track, code[1]) else code[3]),
}
