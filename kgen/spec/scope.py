"""What names stand for while a spec is checked, and the values of constant expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgen.diagnostics import choice_hint, nearest
from kgen.manifest import Code, Scalar
from kgen.semantics import DTYPES, evaluate
from kgen.spec.types import SIGNATURES, Type
from kgen.syntax.ast import Binary, Call, Compare, Expr, In, Unary, literal, to_code


@dataclass(frozen=True)
class Symbol:
    """What a name stands for. `what` is its role in a sentence; `value` is known for constants."""

    type: Type
    what: str
    value: Scalar | None = None


Scope = Mapping[str, Symbol]
OPEN = "*"
"""A scope with this name lacks names that could not be read: what it does not know is not told."""


@dataclass(frozen=True)
class Checked:
    """The type of an expression, and its value where that does not depend on any name."""

    type: Type
    value: Scalar | None = None


def hint_for(name: str, scope: Scope) -> str:
    """What to write instead of a name that `scope` does not have."""
    if name in SIGNATURES:
        return f"'{name}' is a function; call it as {name}(...)"
    if name.lower() in ("true", "false"):
        return f"write '{name.lower()}'"
    if _is_word(name, scope) and nearest(name, scope) is None:
        return f"write the word in quotes: '{name}'"
    return choice_hint(name, list(scope)) if scope else "only constants can be used here"


def _is_word(name: str, scope: Scope) -> bool:
    words = (symbol.type.choices or () for symbol in scope.values())
    return name in DTYPES or any(name in choices for choices in words)


def fold(expr: Expr, values: Sequence[Scalar]) -> Scalar:
    """The value of an expression whose operands have `values`. Raises `EvaluationError`."""
    return evaluate(_over_constants(expr, [to_code(literal(value)) for value in values]), {})


def _over_constants(expr: Expr, parts: list[Code]) -> Code:
    match expr:
        case Unary() | Binary():
            return [expr.op, *parts]
        case Compare():
            return ["compare", list(expr.ops), parts]
        case In():
            return ["in", parts[0], parts[1:]]
        case Call():
            return ["call", expr.function, *parts]
    raise TypeError(f"cannot fold {type(expr).__name__}")
