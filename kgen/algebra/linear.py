"""Integer sums in one form: terms with factors, in the order of the text, and a constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.semantics import INT_MAX, INT_MIN
from kgen.syntax.ast import Binary, Expr, Int, Unary

MAX_TERMS = 32
"""A longer sum stays as it is written."""


@dataclass(frozen=True)
class Sum:
    """`terms` (each with its factor, in order) plus `constant`."""

    terms: Mapping[Expr, int]
    constant: int

    @property
    def fits(self) -> bool:
        """Whether every number in it is a 64-bit int."""
        return all(INT_MIN < value <= INT_MAX for value in (*self.terms.values(), self.constant))


def linear(expr: Expr) -> Sum:
    """An int expression as factors of terms; a product with one constant counts as a term."""
    total = Sum({expr: 1}, 0)
    match expr:
        case Int():
            return Sum({}, expr.value)
        case Binary(op="+"):
            total = plus(linear(expr.left), linear(expr.right))
        case Binary(op="-"):
            total = plus(linear(expr.left), scaled(linear(expr.right), -1))
        case Unary(op="neg"):
            total = scaled(linear(expr.operand), -1)
        case Binary(op="*"):
            total = _product(expr)
    return total if len(total.terms) <= MAX_TERMS else Sum({expr: 1}, 0)


def _product(expr: Binary) -> Sum:
    """A constant moves to the end of a product and multiplies a single term; a sum stays in
    its brackets."""
    left, right = linear(expr.left), linear(expr.right)
    for one, other in ((left, right), (right, left)):
        if not one.terms:
            if one.constant == 0:
                return Sum({}, 0)
            if len(other.terms) + (other.constant != 0) <= 1 or one.constant in (1, -1):
                return scaled(other, one.constant)
            return Sum({from_sum(other): one.constant}, 0)
    factor = 1
    sides = []
    for side in (left, right):
        if len(side.terms) == 1 and side.constant == 0:
            ((term, times),) = side.terms.items()
            factor *= times
            sides.append(term)
        else:
            sides.append(from_sum(side))
    return Sum({_multiply(sides[0], sides[1]): factor}, 0)


def _multiply(left: Expr, right: Expr) -> Expr:
    """A product leans left: a * (b * c) is written a * b * c, unless that nests too deep."""
    if isinstance(right, Binary) and right.op == "*" and left.depth + right.depth < MAX_TERMS:
        return Binary("*", _multiply(left, right.left), right.right)
    return Binary("*", left, right)


def plus(a: Sum, b: Sum) -> Sum:
    """a + b; terms that cancel are gone."""
    terms = dict(a.terms)
    for term, factor in b.terms.items():
        terms[term] = terms.get(term, 0) + factor
    return Sum({term: factor for term, factor in terms.items() if factor}, a.constant + b.constant)


def scaled(total: Sum, by: int) -> Sum:
    """total * by."""
    terms = {term: factor * by for term, factor in total.terms.items() if factor * by}
    return Sum(terms, total.constant * by)


def split(total: Sum, divisor: int) -> tuple[Sum, Sum]:
    """(q, r) with total = q * divisor + r, where q takes every term that divides."""
    whole = {term: factor // divisor for term, factor in total.terms.items() if factor % divisor == 0}
    rest = {term: factor for term, factor in total.terms.items() if factor % divisor}
    return Sum(whole, total.constant // divisor), Sum(rest, total.constant % divisor)


def from_sum(total: Sum) -> Expr:
    """Terms that are added first, so that no sum starts with a minus it can avoid."""
    ordered = sorted(total.terms.items(), key=lambda item: item[1] < 0)
    result: Expr | None = None
    for term, factor in ordered:
        if result is None:
            result = Unary("neg", term) if factor == -1 else _times(term, factor)
        else:
            result = Binary("+" if factor > 0 else "-", result, _times(term, abs(factor)))
    if result is None:
        return Int(total.constant)
    if total.constant == 0:
        return result
    return Binary("+" if total.constant > 0 else "-", result, Int(abs(total.constant)))


def _times(term: Expr, factor: int) -> Expr:
    return term if factor == 1 else Binary("*", term, Int(factor))
