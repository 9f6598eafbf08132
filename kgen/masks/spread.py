"""The interval printer: between which expressions another one lies while q runs over a tile.

    spread(q // chunk - window)  is  (q.lo // chunk - window, q.hi // chunk - window)

The limits speak of the ends of the tile and of what is the same for the whole of it: single arguments, and
arrays over `batch`. Where there is no such limit it is None.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgen.algebra.linear import linear
from kgen.masks.formula import KEY, QUERY
from kgen.syntax.ast import Binary, Call, Expr, If, Index, Int, Name, Unary, names_of, walk

Limits = tuple[Expr | None, Expr | None]
"""The least and the largest value."""

Q_LOW, Q_HIGH = Name("q.lo"), Name("q.hi")
"""The positions of a tile's first and last query."""
_VARYING = (KEY, QUERY, "head")
_NOTHING: Limits = (None, None)


def spread(expr: Expr, positive: frozenset[str] = frozenset()) -> Limits:
    """The limits of an int expression without kv. `positive` names arguments that are above 0."""
    return _Spreader(positive).of(expr)


def is_fixed(expr: Expr) -> bool:
    """Whether an expression has one value for a whole tile."""
    names = names_of(expr)
    if any(name in names for name in _VARYING):
        return False
    indexed = [node for node in walk(expr) if isinstance(node, Index)]
    return all(node.index == Name("batch") for node in indexed)


class _Spreader:
    def __init__(self, positive: frozenset[str]) -> None:
        self._positive = positive

    def of(self, expr: Expr) -> Limits:
        if is_fixed(expr):
            return expr, expr
        match expr:
            case Name(name=name):
                return (Q_LOW, Q_HIGH) if name == QUERY else _NOTHING
            case Unary(op="neg"):
                return _negated(self.of(expr.operand))
            case Binary(op="+" | "-"):
                return self._sum(expr)
            case Binary(op="*"):
                return self._product(expr)
            case Binary(op="//" | "%"):
                return self._division(expr)
            case If():
                sides = [self.of(expr.then), self.of(expr.otherwise)]
                return _extreme("min", [low for low, _ in sides]), _extreme(
                    "max", [high for _, high in sides]
                )
            case Call():
                return self._call(expr)
        return _NOTHING

    def _sum(self, expr: Expr) -> Limits:
        """Terms are taken together first, so that q - q is nothing and not a whole tile."""
        total = linear(expr)
        if expr in total.terms:  # too long to be taken apart
            return _NOTHING
        low: Expr | None = Int(total.constant)
        high: Expr | None = Int(total.constant)
        for term, factor in total.terms.items():
            least, most = self.of(term)
            if factor < 0:
                least, most = most, least
            low, high = _plus(low, least, factor), _plus(high, most, factor)
        return low, high

    def _product(self, expr: Binary) -> Limits:
        """A product with what has one value and a known sign."""
        for factor, other in ((expr.left, expr.right), (expr.right, expr.left)):
            if is_fixed(factor):
                least, most = self.of(other)
                if self._is_positive(factor):
                    return _times(least, factor), _times(most, factor)
                if isinstance(factor, Int):
                    return _times(most, factor), _times(least, factor)
        return _NOTHING

    def _is_positive(self, expr: Expr) -> bool:
        """Whether the value is certain to be above 0."""
        match expr:
            case Int():
                return expr.value > 0
            case Name():
                return expr.name in self._positive
            case Binary(op="*" | "+"):
                return self._is_positive(expr.left) and self._is_positive(expr.right)
        return False

    def _division(self, expr: Binary) -> Limits:
        """By what is above 0, as the checker has seen to."""
        if not is_fixed(expr.right):
            return _NOTHING
        if expr.op == "%":
            return Int(0), Binary("-", expr.right, Int(1))
        least, most = self.of(expr.left)
        return (
            None if least is None else Binary("//", least, expr.right),
            None if most is None else Binary("//", most, expr.right),
        )

    def _call(self, expr: Call) -> Limits:
        sides = [self.of(arg) for arg in expr.args]
        match expr.function:
            case "min":
                return _extreme("min", [low for low, _ in sides]), _least_of(
                    [high for _, high in sides], "min"
                )
            case "max":
                return _least_of([low for low, _ in sides], "max"), _extreme(
                    "max", [high for _, high in sides]
                )
            case "abs":
                low, high = sides[0]
                minus_high, minus_low = _negated(sides[0])
                return _extreme("max", [low or Int(0), minus_high or Int(0), Int(0)]), _extreme(
                    "max", [high, minus_low]
                )
            case "ceil_div" | "align" if is_fixed(expr.args[1]):
                unit = expr.args[1]
                low, high = sides[0]
                return (
                    None if low is None else Call(expr.function, (low, unit)),
                    None if high is None else Call(expr.function, (high, unit)),
                )
        return _NOTHING


def _negated(limits: Limits) -> Limits:
    low, high = limits
    return None if high is None else Unary("neg", high), None if low is None else Unary("neg", low)


def _plus(total: Expr | None, term: Expr | None, factor: int) -> Expr | None:
    if total is None or term is None:
        return None
    return Binary("+", total, Binary("*", term, Int(factor)))


def _times(value: Expr | None, factor: Expr) -> Expr | None:
    return None if value is None else Binary("*", value, factor)


def _extreme(function: str, values: Sequence[Expr | None]) -> Expr | None:
    """min or max of all; None where one of them has no limit."""
    known = [value for value in values if value is not None]
    return Call(function, tuple(known)) if len(known) == len(values) else None


def _least_of(values: Sequence[Expr | None], function: str) -> Expr | None:
    """min or max of those that have a limit: one alone already limits the result."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else Call(function, tuple(known))
