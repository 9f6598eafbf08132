"""Rewrites expressions to shorter ones of equal value.

Names are 64-bit ints unless listed in `floats`. Equal value means: wherever every partial sum
and product fits 64 bits and the original has a value, the result has the same one. Integer
sums become `term * factor + ... + constant` in the order of the text, so that division and
remainder by a constant can drop the terms that divide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from kgen.algebra.bounds import Bounds, range_of
from kgen.algebra.linear import Sum, from_sum, linear, plus, scaled, split
from kgen.diagnostics import KgenError
from kgen.semantics import INT_MAX, MAX_DEPTH, evaluate
from kgen.syntax.ast import (
    LITERALS,
    Attr,
    Binary,
    Bool,
    Call,
    Compare,
    Expr,
    Float,
    If,
    Index,
    Int,
    Name,
    Unary,
    literal,
    rebuild,
    to_code,
)

_FLOAT_CALLS = frozenset({"float", "sqrt", "exp", "exp2", "log", "log2", "tanh"})


def simplify(expr: Expr, bounds: Bounds | None = None, floats: frozenset[str] = frozenset()) -> Expr:
    """A shorter expression of the same value. `bounds` limit int names (inclusive); `floats`
    are the names that hold floats."""
    return _Simplifier(bounds or {}, floats).run(expr)


class _Simplifier:
    def __init__(self, bounds: Bounds, floats: frozenset[str]) -> None:
        self._bounds, self._floats = bounds, floats

    def run(self, expr: Expr) -> Expr:
        inner = rebuild(expr, self.run)
        folded = _fold(inner)
        if folded is None:
            folded = self._rewrite(inner)
        if folded is inner or folded.depth > MAX_DEPTH:
            return inner
        return replace(folded, span=expr.span)

    def _rewrite(self, expr: Expr) -> Expr:
        match expr:
            case Unary(op="not"):
                return _negation(expr)
            case Binary(op="and" | "or" | "implies"):
                return _logic(expr)
            case Binary(op="+" | "-" | "*") | Unary(op="neg") if self._is_int(expr):
                return self._sum(expr)
            case Binary(op="//" | "%", left=Int(value=0)):
                return Int(0)
            case Binary(op="//", left=left, right=Int(value=divisor)) if divisor > 0:
                return self._floor_divide(expr, linear(left), divisor)
            case Binary(op="%", left=left, right=Int(value=divisor)) if divisor > 0:
                return self._modulo(linear(left), divisor)
            case Compare() if all(self._is_int(operand) for operand in expr.operands):
                return self._compare(expr)
            case If():
                return _conditional(expr)
            case Call(function="min" | "max") if self._is_int(expr):
                return self._extreme(expr)
        return expr

    def _is_int(self, expr: Expr) -> bool:
        """Whether a number is an int. Of words and truths nothing is asked that needs an answer."""
        match expr:
            case Float() | Binary(op="/"):
                return False
            case Name():
                return expr.name not in self._floats
            case Index(base=Name(name=name)):
                return name not in self._floats
            case Call(function=function) if function in _FLOAT_CALLS:
                return False
            case Call(function="floor" | "ceil" | "sizeof") | Attr():
                return True
            case If():
                return self._is_int(expr.then) and self._is_int(expr.otherwise)
        return all(self._is_int(part) for part in expr.children())

    def _sum(self, expr: Expr) -> Expr:
        total = self._whole(linear(expr))
        return from_sum(total) if total.fits else expr

    def _whole(self, total: Sum) -> Sum:
        """`x // c * c + x % c` is x, at any multiple."""
        for term, factor in total.terms.items():
            if not (isinstance(term, Binary) and term.op == "%" and isinstance(term.right, Int)):
                continue
            quotient = Binary("//", term.left, term.right)
            if total.terms.get(quotient) == factor * term.right.value:
                rest = {key: value for key, value in total.terms.items() if key not in (term, quotient)}
                return self._whole(plus(Sum(rest, total.constant), scaled(linear(term.left), factor)))
        return total

    def _floor_divide(self, expr: Expr, dividend: Sum, divisor: int) -> Expr:
        if divisor == 1:
            return from_sum(dividend)
        whole, rest = split(dividend, divisor)
        inner = from_sum(rest)
        if self._is_within(inner, divisor):
            return from_sum(whole)
        quotient: Expr = Binary("//", inner, Int(divisor))
        match inner:
            case Binary(op="//", right=Int(value=first)) if 0 < first <= INT_MAX // divisor:
                quotient = Binary("//", inner.left, Int(first * divisor))
        total = plus(whole, linear(quotient))
        return from_sum(total) if total.fits else expr

    def _modulo(self, dividend: Sum, divisor: int) -> Expr:
        _, rest = split(dividend, divisor)
        inner = from_sum(rest)
        if self._is_within(inner, divisor):
            return inner
        match inner:
            case Binary(op="%", right=Int(value=first)) if first > 0 and first % divisor == 0:
                inner = inner.left
        return Binary("%", inner, Int(divisor))

    def _is_within(self, expr: Expr, limit: int) -> bool:
        """Whether 0 <= expr < limit is proved."""
        low, high = range_of(expr, self._bounds)
        return low >= 0 and high < limit

    def _compare(self, expr: Compare) -> Expr:
        """False where one link is; links at the ends of a chain that hold for certain are dropped."""
        ops, operands = list(expr.ops), list(expr.operands)
        links = [self._link(op, *operands[i : i + 2]) for i, op in enumerate(ops)]
        if False in links:
            return Bool(False)
        while links and links[-1] is True:
            links.pop(), ops.pop(), operands.pop()
        while links and links[0] is True:
            links.pop(0), ops.pop(0), operands.pop(0)
        return Compare(tuple(ops), tuple(operands)) if links else Bool(True)

    def _link(self, op: str, left: Expr, right: Expr) -> bool | None:
        """What one comparison is proved to be."""
        if left == right:
            return op in ("==", "<=", ">=")
        low, high = range_of(left, self._bounds)
        least, most = range_of(right, self._bounds)
        apart = high < least or low > most
        always = {"<": high < least, "<=": high <= least, ">": low > most, ">=": low >= most, "!=": apart}
        never = {"<": low >= most, "<=": low > most, ">": high <= least, ">=": high < least, "==": apart}
        if always.get(op):
            return True
        return False if never.get(op) else None

    def _extreme(self, expr: Call) -> Expr:
        args: list[Expr] = []
        for arg in expr.args:
            flat = arg.args if isinstance(arg, Call) and arg.function == expr.function else (arg,)
            args += [each for each in flat if each not in args]
        constants = [arg.value for arg in args if isinstance(arg, Int)]
        if len(constants) > 1:
            best = min(constants) if expr.function == "min" else max(constants)
            args = [*(arg for arg in args if not isinstance(arg, Int)), Int(best)]
        for arg in list(args):
            if self._is_beaten(arg, [other for other in args if other is not arg], expr.function):
                args.remove(arg)
        return args[0] if len(args) == 1 else Call(expr.function, tuple(args), expr.name_span)

    def _is_beaten(self, arg: Expr, others: Sequence[Expr], function: str) -> bool:
        """Whether the result is proved the same without this argument."""
        inner = {"min": "max", "max": "min"}[function]
        if any(_extremes(arg, inner) > _extremes(other, inner) for other in others):
            return True
        low, high = range_of(arg, self._bounds)
        ranges = [range_of(other, self._bounds) for other in others]
        if function == "min":
            return any(most <= low for _, most in ranges if math.isfinite(low))
        return any(least >= high for least, _ in ranges if math.isfinite(high))


def _extremes(expr: Expr, function: str) -> frozenset[Expr]:
    """What an expression is the min (or max) of: the more there are, the smaller (or larger) it is."""
    return frozenset(expr.args if isinstance(expr, Call) and expr.function == function else (expr,))


def _fold(expr: Expr) -> Expr | None:
    """The literal of an expression over literals, unless it has no value or no finite one."""
    parts = expr.children()
    if not parts or not all(isinstance(part, LITERALS) for part in parts):
        return None
    try:
        value = evaluate(to_code(expr), {})
    except KgenError:
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else literal(value)


def _negation(expr: Unary) -> Expr:
    inner = expr.operand
    if isinstance(inner, Unary) and inner.op == "not":
        return inner.operand
    if isinstance(inner, Compare) and inner.ops in (("==",), ("!=",)):
        return Compare(("!=" if inner.ops == ("==",) else "==",), inner.operands)
    return expr


def _logic(expr: Binary) -> Expr:
    left, right = expr.left, expr.right
    if expr.op == "implies":
        if left == Bool(False) or right == Bool(True):
            return Bool(True)
        if left == Bool(True):
            return right
        return _negation(Unary("not", left)) if right == Bool(False) else expr
    dominant = Bool(expr.op == "or")
    if dominant in (left, right):
        return dominant
    if isinstance(left, Bool):
        return right
    return left if isinstance(right, Bool) or left == right else expr


def _conditional(expr: If) -> Expr:
    if isinstance(expr.condition, Bool):
        return expr.then if expr.condition.value else expr.otherwise
    return expr.then if expr.then == expr.otherwise else expr
