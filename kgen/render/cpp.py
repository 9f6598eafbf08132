"""Prints expressions as C++ of the same value, with as few brackets as C++ needs.

C++ divides toward zero, the language floors: where both operands are proved not to be
negative `/` and `%` serve, elsewhere the helpers of `kgen/arith.hpp`. Names are printed as
they are and stand for `int64_t` (or the float type) variables.
"""

from __future__ import annotations

from kgen.algebra.bounds import Bounds, is_natural, is_positive
from kgen.diagnostics import Diagnostic, KgenError
from kgen.semantics import INT_MIN
from kgen.syntax.ast import (
    Attr,
    Binary,
    Bool,
    Call,
    Compare,
    Expr,
    Float,
    If,
    In,
    Index,
    Int,
    Name,
    Str,
    Unary,
)

MAX_SIZE = 10_000
"""Nodes an expression may have once chains and `in` are written out."""

# How tightly C++ binds; an operand that binds looser than its place needs gets brackets.
_TERNARY, _OR, _AND, _EQUAL, _LESS, _SUM, _PRODUCT, _UNARY, _ATOM = range(9)
_BINARY = {"+": _SUM, "-": _SUM, "*": _PRODUCT}
HELPERS = "kgen::expr::"
"""What every call of a function of `kgen/arith.hpp` starts with."""
_HELPERS = {"align": "align_up", "floor": "floor_int", "ceil": "ceil_int"}


def print_cpp(expr: Expr, bounds: Bounds | None = None, real: str = "double") -> str:
    """C++ text. `bounds` limit names (inclusive) and save helpers; `real` is the float type.

    Raises `KgenError` (K336) for what C++ cannot say: words that were not replaced by values.
    """
    if _written_size(expr) > MAX_SIZE:
        message = f"written out as C++ the expression exceeds {MAX_SIZE} terms"
        raise KgenError(Diagnostic("K111", message, expr.span, "name parts of it under 'let'"))
    return _Printer(bounds or {}, real).text(expr)


def _written_size(expr: Expr) -> int:
    """Nodes once the inner operands of chains and the item of `in` are written twice or more."""
    sizes = [_written_size(part) for part in expr.children()]
    if isinstance(expr, Compare):
        return 2 * sum(sizes) - sizes[0] - sizes[-1] + len(expr.ops)
    if isinstance(expr, In):
        return sizes[0] * len(expr.choices) + sum(sizes[1:]) + len(expr.choices)
    return sum(sizes) + 1


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
            case Attr():
                return expr.dotted, _ATOM
            case Unary(op="not"):
                return "!" + self.text(expr.operand, _UNARY), _UNARY
            case Unary():
                inner = self.text(expr.operand, _UNARY)
                return (f"-({inner})" if inner.startswith("-") else f"-{inner}"), _UNARY
            case Binary(op="and" | "or" | "implies"):
                return self._logic(expr)
            case Binary():
                return self._arithmetic(expr)
            case Compare():
                return self._compare(expr)
            case In():
                links = [self._link("==", expr.item, choice) for choice in expr.choices]
                return " || ".join(links), _OR if len(links) > 1 else _EQUAL
            case If():
                return self._conditional(expr), _TERNARY
            case Index():
                return f"{self.text(expr.base, _ATOM)}[{self.text(expr.index)}]", _ATOM
            case Call():
                return self._call(expr), _ATOM
            case Str():
                raise KgenError(Diagnostic("K336", f"the word '{expr.value}' has no form in C++", expr.span))
        raise TypeError(f"no C++ for {type(expr).__name__}")

    def _integer(self, value: int) -> tuple[str, int]:
        if value == INT_MIN:  # its digits alone overflow before the minus applies
            return f"{INT_MIN + 1} - 1", _SUM
        return str(value), _ATOM if value >= 0 else _UNARY

    def _float(self, value: float) -> tuple[str, int]:
        text = repr(value) + ("f" if self._real == "float" else "")
        return text, _UNARY if text.startswith("-") else _ATOM

    def _logic(self, expr: Binary) -> tuple[str, int]:
        if expr.op == "and":
            return f"{self.text(expr.left, _AND)} && {self.text(expr.right, _AND)}", _AND
        if expr.op == "or":
            return f"{self._or_side(expr.left)} || {self._or_side(expr.right)}", _OR
        left = expr.left
        premise = left.operand if isinstance(left, Unary) and left.op == "not" else Unary("not", left)
        return f"{self._or_side(premise)} || {self._or_side(expr.right)}", _OR

    def _or_side(self, expr: Expr) -> str:
        """An operand of ||; compilers warn of && there without brackets."""
        text, binds = self._print(expr)
        return text if binds >= _OR and binds != _AND else f"({text})"

    def _arithmetic(self, expr: Binary) -> tuple[str, int]:
        if expr.op in ("//", "%"):
            return self._divide(expr)
        if expr.op == "/":
            left = f"{self._real}({self.text(expr.left)})"
            return f"{left} / {self.text(expr.right, _UNARY)}", _PRODUCT
        binds = _BINARY[expr.op]
        left = self.text(expr.left, binds)
        if _is_narrow(expr.left) and _is_narrow(expr.right):
            left = f"int64_t({left})"
        return f"{left} {expr.op} {self.text(expr.right, binds + 1)}", binds

    def _divide(self, expr: Binary) -> tuple[str, int]:
        if is_natural(expr.left, self._bounds) and is_positive(expr.right, self._bounds):
            sign = "/" if expr.op == "//" else "%"
            return f"{self.text(expr.left, _PRODUCT)} {sign} {self.text(expr.right, _UNARY)}", _PRODUCT
        helper = "floor_div" if expr.op == "//" else "floor_mod"
        return f"{HELPERS}{helper}({self.text(expr.left)}, {self.text(expr.right)})", _ATOM

    def _compare(self, expr: Compare) -> tuple[str, int]:
        pairs = zip(expr.ops, expr.operands, expr.operands[1:], strict=False)
        links = [self._link(op, left, right) for op, left, right in pairs]
        if len(links) > 1:
            return " && ".join(links), _AND
        return links[0], _EQUAL if expr.ops[0] in ("==", "!=") else _LESS

    def _link(self, op: str, left: Expr, right: Expr) -> str:
        return f"{self.text(left, _SUM)} {op} {self.text(right, _SUM)}"

    def _conditional(self, expr: If) -> str:
        then, otherwise = self.text(expr.then, _OR), self.text(expr.otherwise, _TERNARY)
        if _is_narrow(expr.then) and _is_narrow(expr.otherwise):
            then = f"int64_t({then})"
        return f"{self.text(expr.condition, _OR)} ? {then} : {otherwise}"

    def _call(self, expr: Call) -> str:
        args = [self.text(arg) for arg in expr.args]
        if expr.function == "float":
            return f"{self._real}({args[0]})"
        if expr.function in ("min", "max"):  # the helpers take two
            text = args[0]
            for arg in args[1:]:
                text = f"{HELPERS}{expr.function}({text}, {arg})"
            return text
        if expr.function == "sizeof":
            message = "sizeof of a dtype that is not known has no form in C++"
            raise KgenError(Diagnostic("K336", message, expr.span))
        return f"{HELPERS}{_HELPERS.get(expr.function, expr.function)}({', '.join(args)})"


def _is_narrow(expr: Expr) -> bool:
    """Whether C++ computes an expression in `int`, because only small literals are in it."""
    match expr:
        case Int():
            return -(2**31) < expr.value < 2**31
        case Unary(op="neg") | Binary(op="//" | "%") | Call(function="min" | "max" | "abs"):
            return all(_is_narrow(part) for part in expr.children())
    return False
