"""A mask as a formula: and, or, and comparisons of the form b * kv + rest >= 0.

`not`, `implies`, `if`, chains and `in` are pushed down to comparisons; `abs`, `min`, `max` and a division
that hold kv are taken apart. A comparison that stays unlike the form (of floats, of kv % n, of an array
over kv) is `UNKNOWN`: it may hold for some keys and not for others.

What is divided by is above 0: the checker of specs has seen to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen.algebra.linear import MAX_TERMS, Sum, from_sum, linear, plus, scaled
from kgen.syntax.ast import (
    Binary,
    Bool,
    Call,
    Compare,
    Expr,
    Float,
    If,
    In,
    Int,
    Name,
    Unary,
    names_of,
    walk,
)

KEY, QUERY = "kv", "q"
REAL_CALLS = frozenset({"float", "sqrt", "exp", "exp2", "log", "log2", "tanh"})
"""Functions that give floats."""
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Truth:
    """A formula that always, or never, holds."""

    value: bool


@dataclass(frozen=True)
class Unknown:
    """A comparison about which nothing is said."""


@dataclass(frozen=True)
class AtLeast:
    """factor * kv + rest >= 0; `rest` does not depend on kv."""

    factor: int
    rest: Expr


@dataclass(frozen=True)
class All:
    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Formula, ...]


Formula = Truth | Unknown | AtLeast | All | AnyOf
UNKNOWN = Unknown()


def formula_of(mask: Expr | None, floats: frozenset[str] = frozenset()) -> Formula:
    """The formula of a mask; no mask always holds. `floats` are the names that hold floats."""
    return Truth(True) if mask is None else _Reader(floats).read(mask, True)


class _Reader:
    def __init__(self, floats: frozenset[str]) -> None:
        self._floats = floats

    def read(self, expr: Expr, wanted: bool) -> Formula:
        """Where `expr` has the truth `wanted`."""
        match expr:
            case Bool():
                return Truth(expr.value == wanted)
            case Unary(op="not"):
                return self.read(expr.operand, not wanted)
            case Binary(op="and" | "or"):
                sides = (self.read(expr.left, wanted), self.read(expr.right, wanted))
                return _all(sides) if (expr.op == "and") == wanted else _any(sides)
            case Binary(op="implies"):
                sides = (self.read(expr.left, not wanted), self.read(expr.right, wanted))
                return _any(sides) if wanted else _all(sides)
            case If():
                return self._choice(expr, wanted)
            case Compare():
                pairs = zip(expr.ops, expr.operands, expr.operands[1:], strict=False)
                links = [self._link(op if wanted else _OPPOSITE[op], a, b) for op, a, b in pairs]
                return _all(links) if wanted else _any(links)
            case In():
                op = "==" if wanted else "!="
                links = [self._link(op, expr.item, choice) for choice in expr.choices]
                return _any(links) if wanted else _all(links)
        return UNKNOWN

    def _choice(self, expr: If, wanted: bool) -> Formula:
        holds = _all([self.read(expr.condition, True), self.read(expr.then, wanted)])
        fails = _all([self.read(expr.condition, False), self.read(expr.otherwise, wanted)])
        return _any([holds, fails])

    def _link(self, op: str, left: Expr, right: Expr) -> Formula:
        if not (is_whole(left, self._floats) and is_whole(right, self._floats)):
            return UNKNOWN
        above = plus(linear(left), scaled(linear(right), -1))
        below = scaled(above, -1)
        one = Sum({}, -1)
        match op:
            case ">=":
                return _at_least(above)
            case ">":
                return _at_least(plus(above, one))
            case "<=":
                return _at_least(below)
            case "<":
                return _at_least(plus(below, one))
            case "==":
                return _all([_at_least(above), _at_least(below)])
        return _any([_at_least(plus(above, one)), _at_least(plus(below, one))])


def is_whole(expr: Expr, floats: frozenset[str]) -> bool:
    """Whether a number is made of ints alone. `floats` are the names that hold floats."""
    return not names_of(expr) & floats and not any(
        isinstance(node, Float | Bool)
        or (isinstance(node, Binary) and node.op == "/")
        or (isinstance(node, Call) and node.function in REAL_CALLS)
        for node in walk(expr)
    )


def _at_least(total: Sum, depth: int = 0) -> Formula:
    """total >= 0."""
    if depth > MAX_TERMS or len(total.terms) > MAX_TERMS:
        return UNKNOWN
    keyed = [(term, factor) for term, factor in total.terms.items() if KEY in names_of(term)]
    for term, factor in keyed:
        if isinstance(term, Call) and term.function in ("min", "max", "abs"):
            return _extreme(term, factor, _without(total, term), depth)
    if not total.terms:
        return Truth(total.constant >= 0)
    if not keyed:
        return AtLeast(0, from_sum(total))
    (term, factor), *others = keyed
    rest = _without(total, term)
    if others:
        return UNKNOWN
    if isinstance(term, Name):
        return AtLeast(factor, from_sum(rest))
    if isinstance(term, Call) and term.function == "ceil_div":  # the floor of its opposite
        term, factor = Binary("//", Unary("neg", term.args[0]), term.args[1]), -factor
    if isinstance(term, Binary) and term.op == "//" and KEY not in names_of(term.right):
        return _quotient(term, factor, from_sum(rest), depth)
    return UNKNOWN


def _without(total: Sum, term: Expr) -> Sum:
    return Sum({other: factor for other, factor in total.terms.items() if other != term}, total.constant)


def _extreme(term: Call, factor: int, rest: Sum, depth: int) -> Formula:
    """factor * min(a, b) + rest >= 0, and the like: for both, or for one."""
    args = [linear(arg) for arg in term.args]
    if term.function == "abs":
        args.append(scaled(args[0], -1))
    parts = [_at_least(plus(scaled(arg, factor), rest), depth + 1) for arg in args]
    return _all(parts) if (term.function == "min") == (factor > 0) else _any(parts)


def _quotient(term: Binary, factor: int, rest: Expr, depth: int) -> Formula:
    """factor * (a // d) + rest >= 0, with d > 0 and no kv in rest."""
    if abs(factor) > 1:
        rest = Binary("//", rest, Int(abs(factor)))
    if factor > 0:  # a // d >= -rest
        product = linear(Binary("*", rest, term.right))
        return _at_least(plus(linear(term.left), product), depth + 1)
    product = linear(Binary("*", Binary("+", rest, Int(1)), term.right))  # a // d < rest + 1
    return _at_least(plus(plus(product, scaled(linear(term.left), -1)), Sum({}, -1)), depth + 1)


def _all(parts: Sequence[Formula]) -> Formula:
    kept = [part for part in parts if part != Truth(True)]
    if Truth(False) in kept:
        return Truth(False)
    if len(kept) == 1:
        return kept[0]
    return All(tuple(kept)) if kept else Truth(True)


def _any(parts: Sequence[Formula]) -> Formula:
    kept = [part for part in parts if part != Truth(False)]
    if Truth(True) in kept:
        return Truth(True)
    if len(kept) == 1:
        return kept[0]
    return AnyOf(tuple(kept)) if kept else Truth(False)
