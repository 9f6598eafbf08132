"""Rewrites expressions to shorter ones of equal value.

Names are 64-bit ints unless listed in `floats`. Equal value means: wherever every partial sum
and product fits 64 bits and the original has a value, the result has the same one. Integer
sums become `term * factor + ... + constant` in the order of the text, so that division and
remainder by a constant can drop the terms that divide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kgen.diagnostics import KgenError
from kgen.render.bounds import Bounds, range_of
from kgen.semantics import INT_MAX, INT_MIN, evaluate
from kgen.syntax.ast import (
    LITERALS, Attr, Binary, Bool, Call, Compare, Expr, Float, If, In, Index, Int, Name, Unary, literal, rebuild, to_code,
)  # fmt: skip

_FLOAT_CALLS = frozenset({"float", "sqrt", "exp", "exp2", "log", "log2", "tanh"})


def simplify(expr: Expr, bounds: Bounds | None = None, floats: frozenset[str] = frozenset()) -> Expr:
    """A shorter expression of the same value. `bounds` limit int names (inclusive); `floats`
    are the names that hold floats."""
    return _Simplifier(bounds or {}, floats).run(expr)


@dataclass(frozen=True)
class _Sum:
    """`terms` (each with its factor, in order) plus `constant`."""

    terms: Mapping[Expr, int]
    constant: int

    @property
    def fits(self) -> bool:
        return all(INT_MIN < value <= INT_MAX for value in (*self.terms.values(), self.constant))


class _Simplifier:
    def __init__(self, bounds: Bounds, floats: frozenset[str]) -> None:
        self._bounds, self._floats = bounds, floats

    def run(self, expr: Expr) -> Expr:
        inner = rebuild(expr, self.run)
        folded = _fold(inner)
        if folded is not None:
            return folded
        rule = self._rule(inner)
        return replace(rule(inner), span=expr.span) if rule is not None else inner

    def _rule(self, expr: Expr) -> Callable[[Expr], Expr] | None:
        match expr:
            case Unary(op="not"):
                return _negation
            case Binary(op="and" | "or" | "implies"):
                return _logic
            case Binary(op="+" | "-" | "*") | Unary(op="neg"):
                return self._sum if self._is_int(expr) else None
            case Binary(op="//"):
                return self._floor_divide
            case Binary(op="%"):
                return self._modulo
            case Compare(ops=(_,)):
                return self._compare
            case If():
                return _conditional
            case Call(function="min" | "max"):
                return self._extreme if self._is_int(expr) else None
        return None

    def _is_int(self, expr: Expr) -> bool:
        match expr:
            case Float() | Binary(op="/"):
                return False
            case Name():
                return expr.name not in self._floats
            case Index(base=Name(name=name)):
                return name not in self._floats
            case Call(function=function) if function in _FLOAT_CALLS:
                return False
            case Call(function="floor" | "ceil") | Attr():
                return True
            case If():
                return self._is_int(expr.then) and self._is_int(expr.otherwise)
        return all(self._is_int(part) for part in expr.children())

    def _sum(self, expr: Expr) -> Expr:
        total = self._whole(_linear(expr))
        return _from_sum(total) if total.fits else expr

    def _whole(self, total: _Sum) -> _Sum:
        """`x // c * c + x % c` is x, at any multiple."""
        for term, factor in list(total.terms.items()):
            if not (isinstance(term, Binary) and term.op == "%" and isinstance(term.right, Int)):
                continue
            quotient = Binary("//", term.left, term.right)
            if total.terms.get(quotient) == factor * term.right.value:
                rest = {key: value for key, value in total.terms.items() if key not in (term, quotient)}
                return self._whole(_plus(_Sum(rest, total.constant), _scaled(_linear(term.left), factor)))
        return total

    def _floor_divide(self, expr: Expr) -> Expr:
        assert isinstance(expr, Binary)  # noqa: S101
        left, right = expr.left, expr.right
        if left == Int(0):
            return left
        if not isinstance(right, Int) or right.value <= 0:
            return expr
        divisor = right.value
        if divisor == 1:
            return left
        whole, rest = _split(_linear(left), divisor)
        low, high = range_of(_from_sum(rest), self._bounds)
        if low >= 0 and high < divisor:
            return _from_sum(whole)
        quotient: Expr = Binary("//", _from_sum(rest), right)
        inner = _from_sum(rest)
        if isinstance(inner, Binary) and inner.op == "//" and _is_divisor(inner.right):
            product = inner.right.value * divisor  # type: ignore[attr-defined]
            if product <= INT_MAX:
                quotient = Binary("//", inner.left, Int(product))
        total = _plus(whole, _linear(quotient))
        return _from_sum(total) if total.fits else expr

    def _modulo(self, expr: Expr) -> Expr:
        assert isinstance(expr, Binary)  # noqa: S101
        left, right = expr.left, expr.right
        if left == Int(0):
            return left
        if not isinstance(right, Int) or right.value <= 0:
            return expr
        divisor = right.value
        if divisor == 1:
            return Int(0)
        _, rest = _split(_linear(left), divisor)
        inner = _from_sum(rest)
        low, high = range_of(inner, self._bounds)
        if low >= 0 and high < divisor:
            return inner
        if isinstance(inner, Binary) and inner.op == "%" and _is_divisor(inner.right):
            if inner.right.value % divisor == 0:  # type: ignore[attr-defined]
                inner = inner.left
        return Binary("%", inner, right)

    def _compare(self, expr: Expr) -> Expr:
        assert isinstance(expr, Compare)  # noqa: S101
        (op,), (left, right) = expr.ops, expr.operands
        if not (self._is_int(left) and self._is_int(right)) or not all(map(_is_numeric, (left, right))):
            return expr
        low, high = range_of(left, self._bounds)
        least, most = range_of(right, self._bounds)
        if left == right:
            return Bool(op in ("==", "<=", ">="))
        always = {"<": high < least, "<=": high <= least, ">": low > most, ">=": low >= most}
        never = {"<": low >= most, "<=": low > most, ">": high <= least, ">=": high < least}
        apart = high < least or low > most
        if always.get(op) or (op == "!=" and apart):
            return Bool(True)
        return Bool(False) if never.get(op) or (op == "==" and apart) else expr

    def _extreme(self, expr: Expr) -> Expr:
        assert isinstance(expr, Call)  # noqa: S101
        args: list[Expr] = []
        for arg in expr.args:
            flat = arg.args if isinstance(arg, Call) and arg.function == expr.function else (arg,)
            args += [each for each in flat if each not in args]
        constants = [arg.value for arg in args if isinstance(arg, Int)]
        if len(constants) > 1:
            best = min(constants) if expr.function == "min" else max(constants)
            args = [arg for arg in args if not isinstance(arg, Int)] + [Int(best)]
        kept = [arg for arg in args if not self._is_beaten(arg, args, expr.function)] or args[:1]
        return kept[0] if len(kept) == 1 else Call(expr.function, tuple(kept))

    def _is_beaten(self, arg: Expr, args: Sequence[Expr], function: str) -> bool:
        """Whether another argument is never the worse choice, and strictly or later the better."""
        low, high = range_of(arg, self._bounds)
        for other in args:
            if other is arg:
                continue
            least, most = range_of(other, self._bounds)
            if (most < low) if function == "min" else (least > high):
                return True
            touches = most == low if function == "min" else least == high
            if (
                touches
                and not (isinstance(arg, Int) and isinstance(other, Int))
                and args.index(other) < args.index(arg)
            ):
                return True
        return False


def _fold(expr: Expr) -> Expr | None:
    """The literal of an expression over literals, unless it has no value or no finite one."""
    parts = expr.children()
    if not parts or not all(isinstance(part, LITERALS) for part in parts) or isinstance(expr, Index):
        return None
    try:
        value = evaluate(to_code(expr), {})
    except KgenError:
        return None
    if isinstance(value, float) and value - value != 0:
        return None
    return literal(value, expr.span)


def _linear(expr: Expr) -> _Sum:
    """An int expression as factors of terms; a product with one constant counts as a term."""
    match expr:
        case Int():
            return _Sum({}, expr.value)
        case Binary(op="+"):
            return _plus(_linear(expr.left), _linear(expr.right))
        case Binary(op="-"):
            return _plus(_linear(expr.left), _scaled(_linear(expr.right), -1))
        case Unary(op="neg"):
            return _scaled(_linear(expr.operand), -1)
        case Binary(op="*"):
            return _product(expr)
    return _Sum({expr: 1}, 0)


def _product(expr: Binary) -> _Sum:
    """A constant moves to the end of a product and multiplies a single term; a sum stays in
    its brackets."""
    left, right = _linear(expr.left), _linear(expr.right)
    for one, other in ((left, right), (right, left)):
        if not one.terms:
            if one.constant == 0:
                return _Sum({}, 0)
            if len(other.terms) + (other.constant != 0) <= 1 or one.constant in (1, -1):
                return _scaled(other, one.constant)
            return _Sum({_from_sum(other): one.constant}, 0)
    factor = 1
    sides = []
    for side in (left, right):
        if len(side.terms) == 1 and side.constant == 0:
            ((term, times),) = side.terms.items()
            factor *= times
            sides.append(term)
        else:
            sides.append(_from_sum(side))
    return _Sum({_multiply(sides[0], sides[1]): factor}, 0)


def _multiply(left: Expr, right: Expr) -> Expr:
    """A product leans left: a * (b * c) is written a * b * c."""
    if isinstance(right, Binary) and right.op == "*":
        return Binary("*", _multiply(left, right.left), right.right)
    return Binary("*", left, right)


def _plus(a: _Sum, b: _Sum) -> _Sum:
    terms = dict(a.terms)
    for term, factor in b.terms.items():
        terms[term] = terms.get(term, 0) + factor
    return _Sum({term: factor for term, factor in terms.items() if factor}, a.constant + b.constant)


def _scaled(total: _Sum, by: int) -> _Sum:
    return _Sum(
        {term: factor * by for term, factor in total.terms.items() if factor * by}, total.constant * by
    )


def _split(total: _Sum, divisor: int) -> tuple[_Sum, _Sum]:
    """(q, r) with total = q * divisor + r, where q takes every term that divides."""
    whole = {term: factor // divisor for term, factor in total.terms.items() if factor % divisor == 0}
    rest = {term: factor for term, factor in total.terms.items() if factor % divisor}
    return _Sum(whole, total.constant // divisor), _Sum(rest, total.constant % divisor)


def _from_sum(total: _Sum) -> Expr:
    """Terms that are added first, so that no sum starts with a minus it can avoid."""
    ordered = sorted(total.terms.items(), key=lambda item: item[1] < 0)
    result: Expr | None = None
    for term, factor in ordered:
        size = term if abs(factor) == 1 else Binary("*", term, Int(abs(factor)))
        if result is None:
            result = (
                size if factor > 0 else Unary("neg", term) if factor == -1 else Binary("*", term, Int(factor))
            )
        else:
            result = Binary("+" if factor > 0 else "-", result, size)
    if result is None:
        return Int(total.constant)
    if total.constant == 0:
        return result
    return Binary("+" if total.constant > 0 else "-", result, Int(abs(total.constant)))


def _is_divisor(expr: Expr) -> bool:
    return isinstance(expr, Int) and expr.value > 0


def _is_numeric(expr: Expr) -> bool:
    """Whether an operand of a comparison is a number for certain: words compare by name only."""
    match expr:
        case Int() | Binary(op="+" | "-" | "*" | "//" | "%") | Unary(op="neg") | Call():
            return True
        case Name():
            return True
        case If():
            return _is_numeric(expr.then) and _is_numeric(expr.otherwise)
    return False


def _negation(expr: Expr) -> Expr:
    assert isinstance(expr, Unary)  # noqa: S101
    inner = expr.operand
    if isinstance(inner, Unary) and inner.op == "not":
        return inner.operand
    if isinstance(inner, Compare) and inner.ops in (("==",), ("!=",)):
        return Compare(("!=" if inner.ops == ("==",) else "==",), inner.operands)
    return expr


def _logic(expr: Expr) -> Expr:
    assert isinstance(expr, Binary)  # noqa: S101
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


def _conditional(expr: Expr) -> Expr:
    assert isinstance(expr, If)  # noqa: S101
    if isinstance(expr.condition, Bool):
        return expr.then if expr.condition.value else expr.otherwise
    return expr.then if expr.then == expr.otherwise else expr
