"""Prints expressions as C++ of the same value, with as few brackets as C++ needs.

C++ divides toward zero, the language floors: where both operands are proved not to be
negative `/` and `%` serve, elsewhere the helpers of `kgen/arith.hpp`. Names are printed as
they are and stand for `int64_t` (or the float type) variables.
"""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, KgenError
from kgen.render.bounds import Bounds, is_natural, is_positive
from kgen.render.simplify import simplify as simplify
from kgen.semantics import INT_MIN
from kgen.syntax.ast import (
    Attr, Binary, Bool, Call, Compare, Expr, Float, If, In, Index, Int, Name, Str, Unary, rebuild,
)  # fmt: skip

MAX_SIZE = 10_000
"""Nodes an expression may have once chains and `in` are written out."""

# How tightly C++ binds; operands that bind looser are put in brackets.
_TERNARY, _OR, _AND, _EQUAL, _LESS, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT}


def print_cpp(expr: Expr, bounds: Bounds | None = None, real: str = "double") -> str:
    """C++ text. `bounds` limit names (inclusive) and save helpers; `real` is the float type.

    Raises `KgenError` (K301) for what C++ cannot say: words and fields that were not replaced
    by their values.
    """
    return _Printer(bounds or {}, real).text(_spell_out(expr))


def _spell_out(expr: Expr) -> Expr:
    """Chains and `in` as `and` and `or` of plain comparisons; `implies` as `not a or b`."""
    inner = rebuild(expr, _spell_out)
    result = inner
    if isinstance(inner, Compare) and len(inner.ops) > 1:
        links = [Compare((op,), inner.operands[i : i + 2]) for i, op in enumerate(inner.ops)]
        result = _joined("and", links)
    elif isinstance(inner, In):
        result = _joined("or", [Compare(("==",), (inner.item, choice)) for choice in inner.choices])
    elif isinstance(inner, Binary) and inner.op == "implies":
        result = Binary("or", Unary("not", inner.left), inner.right)
    if result.size > MAX_SIZE:
        message = f"written out as C++ the expression exceeds {MAX_SIZE} terms"
        raise KgenError(Diagnostic("K111", message, expr.span, "name parts of it under 'let'"))
    return result


def _joined(op: str, parts: list[Compare]) -> Expr:
    result: Expr = parts[0]
    for part in parts[1:]:
        result = Binary(op, result, part)
    return result


class _Printer:
    def __init__(self, bounds: Bounds, real: str) -> None:
        self._bounds, self._real = bounds, real

    def text(self, expr: Expr, least: int = _TERNARY) -> str:
        """`expr` where something that binds as tightly as `least` is needed."""
        text, binds = self._print(expr)
        return text if binds >= least else f"({text})"

    def _print(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Int():
                return self._integer(expr.value)
            case Float():
                return self._float(expr.value)
            case Bool():
                return str(expr.value).lower(), _ATOM
            case Name():
                return expr.name, _ATOM
            case Unary():
                sign = "!" if expr.op == "not" else "-"
                inner = self.text(expr.operand, _UNARY)
                return (f"-({inner})" if sign == inner[0] == "-" else sign + inner), _UNARY
            case Binary():
                return self._binary(expr)
            case Compare():
                return self._compare(expr)
            case If():
                return self._conditional(expr), _TERNARY
            case Index():
                return f"{self.text(expr.base, _ATOM)}[{self.text(expr.index)}]", _ATOM
            case Call():
                return self._call(expr), _ATOM
            case Str() | Attr():
                what = f"the word '{expr.value}'" if isinstance(expr, Str) else f"'{expr.dotted}'"
                raise KgenError(Diagnostic("K301", f"{what} has no form in C++", expr.span))
        raise TypeError(f"no C++ for {type(expr).__name__}")

    def _integer(self, value: int) -> tuple[str, int]:
        if value == INT_MIN:  # its digits alone overflow before the minus applies
            return f"{INT_MIN + 1} - 1", _SUM
        return str(value), _ATOM if value >= 0 else _UNARY

    def _float(self, value: float) -> tuple[str, int]:
        text = repr(value) + ("f" if self._real == "float" else "")
        return text, _UNARY if text.startswith("-") else _ATOM

    def _binary(self, expr: Binary) -> tuple[str, int]:
        if expr.op == "and":
            return f"{self.text(expr.left, _AND)} && {self.text(expr.right, _EQUAL)}", _AND
        if expr.op == "or":  # brackets around && inside ||: compilers warn without
            return f"{self._or_side(expr.left)} || {self._or_side(expr.right)}", _OR
        if expr.op in ("//", "%"):
            return self._divide(expr)
        if expr.op == "/":
            left = f"{self._real}({self.text(expr.left)})"
            return f"{left} / {self.text(expr.right, _UNARY)}", _PRODUCT
        binds = _BINARY[expr.op]
        right = self.text(expr.right, binds + 1)
        return f"{self.text(expr.left, binds)} {expr.op} {right}", binds

    def _or_side(self, expr: Expr) -> str:
        is_and = isinstance(expr, Binary) and expr.op == "and"
        return f"({self.text(expr)})" if is_and else self.text(expr, _OR)

    def _divide(self, expr: Binary) -> tuple[str, int]:
        if is_natural(expr.left, self._bounds) and is_positive(expr.right, self._bounds):
            sign = "/" if expr.op == "//" else "%"
            return f"{self.text(expr.left, _PRODUCT)} {sign} {self.text(expr.right, _UNARY)}", _PRODUCT
        helper = "floor_div" if expr.op == "//" else "floor_mod"
        return f"kgen::{helper}({self.text(expr.left)}, {self.text(expr.right)})", _ATOM

    def _compare(self, expr: Compare) -> tuple[str, int]:
        binds = _EQUAL if expr.ops[0] in ("==", "!=") else _LESS
        left, right = (
            self.text(operand, _LESS + 1 if _is_number(operand) else _UNARY) for operand in expr.operands
        )
        return f"{left} {expr.ops[0]} {right}", binds

    def _conditional(self, expr: If) -> str:
        then, otherwise = self.text(expr.then, _OR), self.text(expr.otherwise, _TERNARY)
        if isinstance(expr.then, Int) and isinstance(expr.otherwise, Int):
            then = f"int64_t{{{then}}}"  # two literals would make a 32-bit int
        return f"{self.text(expr.condition, _OR)} ? {then} : {otherwise}"

    def _call(self, expr: Call) -> str:
        args = [self.text(arg) for arg in expr.args]
        if expr.function == "float":
            return f"{self._real}({args[0]})"
        if expr.function in ("min", "max"):  # the helpers take two
            text = args[0]
            for arg in args[1:]:
                text = f"kgen::{expr.function}({text}, {arg})"
            return text
        if expr.function == "sizeof":
            raise KgenError(
                Diagnostic("K301", "sizeof of a dtype that is not known has no form in C++", expr.span)
            )
        return f"kgen::{_HELPERS.get(expr.function, expr.function)}({', '.join(args)})"


_HELPERS = {"align": "align_up", "floor": "floor_int", "ceil": "ceil_int"}


def _is_number(expr: Expr) -> bool:
    """Whether an operand is arithmetic: those bind tighter than a comparison without brackets."""
    return not isinstance(expr, Compare | If) and not (isinstance(expr, Binary) and expr.op in ("and", "or"))
