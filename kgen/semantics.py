"""What expressions mean: one evaluator, used by the compile half and by dispatch alike.

An expression arrives as `Code`, nested JSON lists:

    ["int", 3] ["float", 0.5] ["bool", true] ["str", "causal"] ["name", "group"]
    ["name", "layout.k_known"]            an attribute is a dotted name
    ["+", a, b]   also - * / // % == != < <= > >= and or implies
    ["neg", a] ["not", a] ["if", condition, then, otherwise]
    ["compare", ["<", "<="], [a, b, c]]   a chain: a < b <= c, each operand evaluated once
    ["in", item, [a, b, ...]]             membership
    ["index", base, i]                    base names a sequence
    ["call", "min", a, b]

Integers are 64-bit and overflow is an error; `//` and `%` floor; `/` is float division;
`and`, `or`, `implies`, chains and `if` evaluate only what they need. Evaluation is total: it
returns a value or raises `EvaluationError`, whatever the code holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgen.arithmetic import BINARY, FUNCTIONS, Fault, check_int, equal, integer, number, truth
from kgen.arithmetic import DTYPES as DTYPES
from kgen.arithmetic import INT_MAX as INT_MAX
from kgen.arithmetic import INT_MIN as INT_MIN
from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.manifest import Code, Scalar

MAX_DEPTH = 100
"""How deep an expression may nest: the parser refuses more, and so does the evaluator."""


class EvaluationError(KgenError):
    """An expression without a value. `code` is the part that failed (the very object)."""

    def __init__(self, number: str, message: str, code: Code, hint: str | None = None) -> None:
        super().__init__(Diagnostic(number, message, None, hint))
        self.code = code


def evaluate(code: Code, names: Mapping[str, Any]) -> Scalar:
    """The value of `code` where `names` gives every name it uses. Raises `EvaluationError`."""
    value: Scalar = _evaluate(code, names, 0)
    return value


def _evaluate(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise EvaluationError("K111", "the expression nests too deep to evaluate", code)
    try:
        return _FORMS[code[0]](code, names, depth + 1)
    except Fault as fault:
        raise EvaluationError(fault.number, str(fault), code, fault.hint) from None
    except (TypeError, ValueError, LookupError, AttributeError):
        raise EvaluationError("K503", f"not an expression: {_head(code)}", code) from None


def _head(code: Any) -> str:
    """What malformed code claims to be, briefly."""
    named = isinstance(code, list) and bool(code) and isinstance(code[0], str)
    return f"'{code[0][:20]}' with unfit operands" if named else f"a value of type {type(code).__name__}"


def _literal(code: Code, _names: Mapping[str, Any], _depth: int) -> Any:
    kind, value = code[0], code[1]
    expected: type = {"int": int, "float": float, "bool": bool, "str": str}[kind]
    if kind == "float" and isinstance(value, int):
        value = float(value)
    if type(value) is not expected:
        raise ValueError(f"{value!r} is no {kind}")
    return check_int(value) if isinstance(value, int) and kind == "int" else value


def _name(code: Code, names: Mapping[str, Any], _depth: int) -> Any:
    name = code[1]
    if name not in names:
        raise Fault("K205", f"'{name}' is not known here", choice_hint(name, sorted(map(str, names))))
    return names[name]


def _binary(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    symbol, left, right = code
    return BINARY[symbol](_evaluate(left, names, depth), _evaluate(right, names, depth))


def _unary(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    value = _evaluate(code[1], names, depth)
    if code[0] == "not":
        return not truth(value)
    return check_int(-value) if isinstance(number(value), int) else -value


def _and(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return truth(_evaluate(code[1], names, depth)) and truth(_evaluate(code[2], names, depth))


def _or(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return truth(_evaluate(code[1], names, depth)) or truth(_evaluate(code[2], names, depth))


def _implies(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return not truth(_evaluate(code[1], names, depth)) or truth(_evaluate(code[2], names, depth))


def _if(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    chosen = code[2] if truth(_evaluate(code[1], names, depth)) else code[3]
    return _evaluate(chosen, names, depth)


def _compare(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    symbols, operands = code[1], code[2]
    left = _evaluate(operands[0], names, depth)
    for symbol, operand in zip(symbols, operands[1:], strict=True):
        right = _evaluate(operand, names, depth)
        if not BINARY[symbol](left, right):
            return False
        left = right
    return True


def _in(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    item = _evaluate(code[1], names, depth)
    return any(equal(item, _evaluate(choice, names, depth)) for choice in code[2])


def _index(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    values = _evaluate(code[1], names, depth)
    place = integer(_evaluate(code[2], names, depth))
    if not 0 <= place < len(values):
        raise Fault("K211", f"index {place} is outside 0..{len(values) - 1}")
    return values[place]


def _call(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    function = code[1]
    if function not in FUNCTIONS:
        raise Fault("K206", f"unknown function '{function}'", choice_hint(function, list(FUNCTIONS)))
    return FUNCTIONS[function](*(_evaluate(argument, names, depth) for argument in code[2:]))


_FORMS: Mapping[str, Callable[[Code, Mapping[str, Any], int], Any]] = {
    **dict.fromkeys(("int", "float", "bool", "str"), _literal),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(("neg", "not"), _unary),
    "name": _name,
    "and": _and,
    "or": _or,
    "implies": _implies,
    "if": _if,
    "compare": _compare,
    "in": _in,
    "index": _index,
    "call": _call,
}
