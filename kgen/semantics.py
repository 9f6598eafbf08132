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

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.manifest import Code, Scalar

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
MAX_DEPTH = 100
"""How deep an expression may nest: the parser refuses more, and so does the evaluator."""

DTYPES: Mapping[str, int] = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "u8": 1}
"""Element size in bytes."""


class EvaluationError(KgenError):
    """An expression without a value. `code` is the part that failed (the very object)."""

    def __init__(self, number: str, message: str, code: Code, hint: str | None = None) -> None:
        super().__init__(Diagnostic(number, message, None, hint))
        self.code = code


class _Fault(Exception):
    """A fault inside a primitive, before it is known which code it belongs to."""

    def __init__(self, number: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.number, self.hint = number, hint


def evaluate(code: Code, names: Mapping[str, Any]) -> Scalar:
    """The value of `code` where `names` gives every name it uses. Raises `EvaluationError`."""
    return _evaluate(code, names, 0)


def _evaluate(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    if depth > 2 * MAX_DEPTH:
        raise EvaluationError("K111", "the expression nests too deep to evaluate", code)
    try:
        form = _FORMS[code[0]]
    except (KeyError, IndexError, TypeError):
        raise EvaluationError("K503", f"not an expression: {str(code)[:80]}", code) from None
    try:
        return form(code, names, depth + 1)
    except _Fault as fault:
        raise EvaluationError(fault.number, str(fault), code, fault.hint) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise EvaluationError("K503", f"cannot evaluate {str(code)[:80]}: {error}", code) from None


def check_int(value: int) -> int:
    """`value` when it fits 64 bits; otherwise the fault that says so."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise _Fault("K210", "integer overflow: the value does not fit 64 bits")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Fault("K208", f"expected a number, found {_show(value)}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Fault("K208", f"expected an int, found {_show(value)}")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Fault("K208", f"expected true or false, found {_show(value)}")
    return value


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _arithmetic(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(_number(a), int) and isinstance(_number(b), int):
            return check_int(apply(a, b))
        return apply(float(a), float(b))

    return run


def _divide(a: Any, b: Any) -> float:
    if _number(b) == 0:
        raise _Fault("K209", "division by zero")
    return float(_number(a)) / float(b)


def _floor_divide(a: Any, b: Any) -> int:
    if _integer(b) == 0:
        raise _Fault("K209", "division by zero")
    return check_int(_integer(a) // b)


def _modulo(a: Any, b: Any) -> int:
    if _integer(b) == 0:
        raise _Fault("K209", "division by zero")
    return _integer(a) % b


def _comparison(apply: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(a: Any, b: Any) -> bool:
        if isinstance(_number(a), int) and isinstance(_number(b), int):
            return apply(a, b)
        return apply(float(a), float(b))

    return run


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, str) != isinstance(b, str) or isinstance(a, bool) != isinstance(b, bool):
        raise _Fault("K208", f"cannot compare {_show(a)} with {_show(b)}")
    if isinstance(a, float) or isinstance(b, float):
        return float(a) == float(b)
    return bool(a == b)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
}


def _least(*values: Any) -> Any:
    return _extreme(values, lambda a, b: a < b)


def _greatest(*values: Any) -> Any:
    return _extreme(values, lambda a, b: a > b)


def _extreme(values: Sequence[Any], better: Callable[[Any, Any], bool]) -> Any:
    if any(isinstance(_number(value), float) for value in values):
        values = [float(value) for value in values]
    best = values[0]
    for value in values[1:]:
        best = value if better(value, best) else best
    return best


def _absolute(value: Any) -> Any:
    return check_int(abs(value)) if isinstance(_number(value), int) else abs(value)


def _ceil_div(a: Any, b: Any) -> int:
    if _integer(b) == 0:
        raise _Fault("K209", "division by zero")
    return check_int(-(-_integer(a) // b))


def _align(value: Any, unit: Any) -> int:
    return check_int(_ceil_div(value, unit) * _integer(unit))


def _logarithm(base: str, apply: Callable[[float], float]) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        if not _number(value) > 0:
            raise _Fault("K211", f"{base} of {value}: the argument must be above 0")
        return apply(float(value))

    return run


def _root(value: Any) -> float:
    if not _number(value) >= 0:
        raise _Fault("K211", f"sqrt of {value}: the argument must not be negative")
    return math.sqrt(value)


def _power(base: float) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        try:
            return math.exp(float(_number(value))) if base == math.e else math.pow(base, float(value))
        except OverflowError:
            return math.inf

    return run


def _rounding(apply: Callable[[float], int]) -> Callable[[Any], int]:
    def run(value: Any) -> int:
        if isinstance(_number(value), float) and not math.isfinite(value):
            raise _Fault("K211", f"{value} has no integer part")
        return check_int(apply(value))

    return run


def _sizeof(dtype: Any) -> int:
    if dtype not in DTYPES:
        raise _Fault("K204", f"unknown dtype {_show(dtype)}", choice_hint(str(dtype), list(DTYPES)))
    return DTYPES[dtype]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": _least,
    "max": _greatest,
    "abs": _absolute,
    "ceil_div": _ceil_div,
    "align": _align,
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "float": lambda value: float(_number(value)),
    "sqrt": _root,
    "exp": _power(math.e),
    "exp2": _power(2.0),
    "log": _logarithm("log", math.log),
    "log2": _logarithm("log2", math.log2),
    "tanh": lambda value: math.tanh(_number(value)),
    "sizeof": _sizeof,
}


def apply_function(name: str, values: Sequence[Any], code: Code) -> Any:
    """The value of a call of `name`. Raises `EvaluationError` that blames `code`."""
    if name not in FUNCTIONS:
        hint = choice_hint(name, list(FUNCTIONS))
        raise EvaluationError("K206", f"unknown function '{name}'", code, hint)
    try:
        return FUNCTIONS[name](*values)
    except _Fault as fault:
        raise EvaluationError(fault.number, str(fault), code, fault.hint) from None


def _literal(code: Code, _names: Mapping[str, Any], _depth: int) -> Any:
    kind, value = code
    expected = {"int": int, "float": float, "bool": bool, "str": str}[kind]
    if kind == "float" and isinstance(value, int):
        value = float(value)
    if type(value) is not expected:
        raise ValueError(f"{value!r} is no {kind}")
    return check_int(value) if kind == "int" else value


def _name(code: Code, names: Mapping[str, Any], _depth: int) -> Any:
    name = code[1]
    if name not in names:
        raise _Fault("K205", f"'{name}' is not known here", choice_hint(name, sorted(map(str, names))))
    return names[name]


def _binary(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    symbol, left, right = code
    return BINARY[symbol](_evaluate(left, names, depth), _evaluate(right, names, depth))


def _unary(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    value = _evaluate(code[1], names, depth)
    if code[0] == "not":
        return not _truth(value)
    return check_int(-value) if isinstance(_number(value), int) else -value


def _and(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return _truth(_evaluate(code[1], names, depth)) and _truth(_evaluate(code[2], names, depth))


def _or(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return _truth(_evaluate(code[1], names, depth)) or _truth(_evaluate(code[2], names, depth))


def _implies(code: Code, names: Mapping[str, Any], depth: int) -> bool:
    return not _truth(_evaluate(code[1], names, depth)) or _truth(_evaluate(code[2], names, depth))


def _if(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    chosen = code[2] if _truth(_evaluate(code[1], names, depth)) else code[3]
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
    return any(_equal(item, _evaluate(choice, names, depth)) for choice in code[2])


def _index(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    values = _evaluate(code[1], names, depth)
    place = _integer(_evaluate(code[2], names, depth))
    if not 0 <= place < len(values):
        raise _Fault("K211", f"index {place} is outside 0..{len(values) - 1}")
    return values[place]


def _call(code: Code, names: Mapping[str, Any], depth: int) -> Any:
    return apply_function(code[1], [_evaluate(argument, names, depth) for argument in code[2:]], code)


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
