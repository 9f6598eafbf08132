"""Between which values an integer expression lies, given bounds of its names.

Enough to prove that a dividend is not negative or that a remainder is the whole; conditions
are not followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kgen.syntax.ast import Binary, Call, Expr, If, Int, Name, Unary

Bound = int | float
"""An int, or an infinity where there is no limit."""
Range = tuple[Bound, Bound]
Bounds = Mapping[str, tuple[int | None, int | None]]
"""Inclusive limits by name; None, or no entry, where there is none."""

EVERYTHING: Range = (-math.inf, math.inf)


def range_of(expr: Expr, bounds: Bounds) -> Range:
    """The smallest and largest value `expr` can have."""
    match expr:
        case Int():
            return expr.value, expr.value
        case Name():
            least, most = bounds.get(expr.name, (None, None))
            return -math.inf if least is None else least, math.inf if most is None else most
        case Unary(op="neg"):
            low, high = range_of(expr.operand, bounds)
            return -high, -low
        case Binary():
            rule = _BINARY.get(expr.op)
            return rule(range_of(expr.left, bounds), range_of(expr.right, bounds)) if rule else EVERYTHING
        case If():
            return _union([range_of(expr.then, bounds), range_of(expr.otherwise, bounds)])
        case Call():
            return _call(expr.function, [range_of(arg, bounds) for arg in expr.args])
    return EVERYTHING


def is_natural(expr: Expr, bounds: Bounds) -> bool:
    """Whether `expr` is proved never to be negative."""
    return range_of(expr, bounds)[0] >= 0


def is_positive(expr: Expr, bounds: Bounds) -> bool:
    """Whether `expr` is proved to be above 0."""
    return range_of(expr, bounds)[0] > 0


def _add(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _multiply(a: Range, b: Range) -> Range:
    corners = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)


def _floor(value: Bound, by: Bound) -> Bound:
    if math.isinf(value):
        return value
    if math.isinf(by):
        return 0 if value >= 0 else -1
    return int(value) // int(by)


def _floor_divide(a: Range, b: Range) -> Range:
    if b[0] <= 0:
        return EVERYTHING
    corners = [_floor(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _modulo(a: Range, b: Range) -> Range:
    if b[0] <= 0:
        return EVERYTHING
    if a[0] >= 0 and a[1] < b[0]:
        return a
    return 0, b[1] - 1


_BINARY = {"+": _add, "-": _subtract, "*": _multiply, "//": _floor_divide, "%": _modulo}


def _union(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _call(function: str, args: Sequence[Range]) -> Range:
    if function == "min":
        return min(low for low, _ in args), min(high for _, high in args)
    if function == "max":
        return max(low for low, _ in args), max(high for _, high in args)
    if function == "abs":
        low, high = args[0]
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if function == "ceil_div":
        negated = _floor_divide((-args[0][1], -args[0][0]), args[1])
        return -negated[1], -negated[0]
    if function == "align" and args[1][0] > 0:
        return args[0][0], args[0][1] + args[1][1] - 1
    if function == "sizeof":
        return 1, 8
    return EVERYTHING
