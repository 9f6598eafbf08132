"""Expressions followed along their scalars: a value, how it moves, and how far that holds.

One pass over an expression gives its value and, while it moves with one scalar, its path; on the way every
comparison and every choice narrows the interval of that scalar on which it goes as it went. What is
not followed (products of scalars, floats, arrays, sums over two scalars) is held: the interval narrows to
where what it is made of has the values it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from kgen.arithmetic import BINARY, FUNCTIONS, INT_MAX, equal, integer, truth
from kgen.dispatch import codes
from kgen.dispatch.intervals import Intervals, Tracked
from kgen.dispatch.paths import FAR, Interval, Path
from kgen.manifest import Code, Scalar
from kgen.semantics import MAX_DEPTH, evaluate


class Tracker(Intervals):
    """Follows expressions, which have a value here, over `names`, of which the ints `scalars` may change, and
    with them the `facts` that are made of them. What else expressions name has one of the `definitions`."""

    def __init__(
        self,
        names: Mapping[str, Scalar],
        scalars: Mapping[str, int],
        facts: Iterable[tuple[str, Code]] = (),
        definitions: Mapping[str, Code] = MappingProxyType({}),
    ) -> None:
        super().__init__(scalars)
        self._given: dict[str, Scalar] = {**names, **scalars}
        self._names = codes.Defined(self._given, definitions)
        self._tracked = {name: Tracked(value, Path(name)) for name, value in scalars.items()}
        defined = {name: code for name, code in definitions.items() if name not in names}
        self._facts = _made_of({**{name: code for name, code in facts if name in names}, **defined}, scalars)
        self._depth = 0

    def constant(self, code: Code) -> Scalar:
        """The value of an expression, the same all over the intervals."""
        value: Scalar = self.held(self.follow(code)).value
        return value

    def follow(self, code: Code) -> Tracked:
        """An expression's value and path."""
        if not self._moving(code):
            return Tracked(evaluate(code, self._names))
        head = code[1] if code[0] == "call" else code[0]
        self._depth += 1
        try:
            return _FORMS.get(head, Tracker.still)(self, code)
        finally:
            self._depth -= 1

    def _moving(self, code: Code) -> list[str]:
        names = codes.names_in(code)
        return [name for name in (*self._scalars, *self._facts) if name in names]

    def still(self, code: Code) -> Tracked:
        """The value of what is not followed."""
        for name in self._moving(code):
            self.held(self.named(name))
        return Tracked(evaluate(code, self._names))

    def named(self, name: str) -> Tracked:
        """The value of a name, which may be a scalar, or a fact or definition made of scalars. Where one is
        made of others so often over that it cannot be followed, the scalars are held."""
        if name not in self._tracked:
            code = self._facts.get(name)
            if code is not None and self._depth > MAX_DEPTH:
                self.pin()
                code = None
            self._tracked[name] = Tracked(self._names[name]) if code is None else self.follow(code)
        return self._tracked[name]

    def still_names(self) -> Mapping[str, Scalar]:
        """What has one value, whatever the scalars are."""
        moving = {*self._scalars, *self._facts}
        return {name: value for name, value in self._given.items() if name not in moving}


def _made_of(facts: Mapping[str, Code], scalars: Iterable[str]) -> Mapping[str, Code]:
    """The facts that are made of scalars, or of facts that are."""
    moving, count = set(scalars), -1
    while len(moving) != count:
        count = len(moving)
        moving.update(name for name, code in facts.items() if codes.names_in(code) & moving)
    return {name: code for name, code in facts.items() if name in moving}


def _ints(*operands: Tracked) -> bool:
    return all(isinstance(each.value, int) and not isinstance(each.value, bool) for each in operands)


def _sum(track: Tracker, code: Code) -> Tracked:
    left, right = track.follow(code[1]), track.follow(code[2])
    if not _ints(left, right):
        return Tracked(BINARY[code[0]](track.held(left).value, track.held(right).value))
    return track.sum(left, right, -1 if code[0] == "-" else 1)


def _product(track: Tracker, code: Code) -> Tracked:
    left, right = track.follow(code[1]), track.follow(code[2])
    if not _ints(left, right):
        return Tracked(BINARY["*"](track.held(left).value, track.held(right).value))
    return track.product(left, right)


def _negative(track: Tracker, code: Code) -> Tracked:
    operand = track.follow(code[1])
    return track.straight(operand, -1, 0) if _ints(operand) else Tracked(-operand.value)


def _quotient(track: Tracker, code: Code) -> Tracked:
    left, divisor = track.follow(code[1]), integer(track.held(track.follow(code[2])).value)
    if divisor <= 0:
        return Tracked(BINARY["//"](track.held(left).value, divisor))
    return track.bent(left, "//", divisor)


def _rest(track: Tracker, code: Code) -> Tracked:
    """`%`, over an interval on which the quotient stays."""
    left, divisor = track.follow(code[1]), integer(track.held(track.follow(code[2])).value)
    if divisor <= 0:
        return Tracked(BINARY["%"](track.held(left).value, divisor))
    quotient = track.held(track.bent(left, "//", divisor)).value
    return track.straight(left, 1, -quotient * divisor)


def _rounded(track: Tracker, code: Code) -> Tracked:
    """`ceil_div` and `align`."""
    left, unit = track.follow(code[2]), integer(track.held(track.follow(code[3])).value)
    value = FUNCTIONS[code[1]](left.value, unit)
    if unit <= 0 or left.value + unit - 1 > INT_MAX:
        track.held(left)
        return Tracked(value)
    quotient = track.bent(track.straight(left, 1, unit - 1), "//", unit)
    return quotient if code[1] == "ceil_div" else track.straight(quotient, unit, 0)


def _extreme(track: Tracker, code: Code) -> Tracked:
    """`min` and `max`; among operands that move, while the same one wins."""
    operands = [track.follow(part) for part in code[2:]]
    kind, value = code[1], FUNCTIONS[code[1]](*(each.value for each in operands))
    moving = [each for each in operands if each.path is not None]
    if not moving or not _ints(*operands):
        for each in moving:
            track.held(each)
        return Tracked(value)
    best = (max if kind == "max" else min)(moving, key=lambda each: each.value)
    for each in moving:
        ahead = track.apart(best, each) if kind == "max" else track.apart(each, best)
        track.within(ahead, 0, FAR)
    still = [each.value for each in operands if each.path is None]
    return track.bent(best, kind, FUNCTIONS[kind](*still)) if still else best


def _holds(track: Tracker, symbol: str, left: Tracked, right: Tracked) -> bool:
    """A comparison, while it stays what it is."""
    result: bool = BINARY[symbol](left.value, right.value)
    if not _ints(left, right):
        track.held(left), track.held(right)
        return result
    apart = track.apart(left, right)
    track.within(apart, *_side(symbol, result, apart.value))
    return result


_UNDER, _UP_TO, _FROM, _OVER = (-FAR, -1), (-FAR, 0), (0, FAR), (1, FAR)
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
    "name": lambda track, code: track.named(code[1]),
    "+": _sum,
    "-": _sum,
    "*": _product,
    "neg": _negative,
    "//": _quotient,
    "%": _rest,
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
