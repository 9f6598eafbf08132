"""The arithmetic of the language on plain values: what each operator and function gives.

Ints are 64-bit and their overflow is a fault; `//` and `%` floor; mixing ints and floats gives
floats. Every primitive is total: it returns a value or raises `Fault`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgen.diagnostics import choice_hint

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1

DTYPES: Mapping[str, int] = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "i32": 4,
    "i64": 8,
    "u8": 1,
}
"""Element size in bytes."""


class Fault(Exception):
    """A fault inside a primitive, before it is known which code it belongs to."""

    def __init__(self, number: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.number, self.hint = number, hint


def check_int(value: int) -> int:
    """`value` when it fits 64 bits; otherwise the fault that says so."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Fault("K210", "integer overflow: the value does not fit 64 bits")


def number(value: Any) -> Any:
    """`value` when it is an int or a float; a bool is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault("K208", f"expected a number, found {show(value)}")
    return value


def integer(value: Any) -> int:
    """`value` when it is an int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Fault("K208", f"expected an int, found {show(value)}")


def truth(value: Any) -> bool:
    """`value` when it is true or false."""
    if not isinstance(value, bool):
        raise Fault("K208", f"expected true or false, found {show(value)}")
    return value


def show(value: Any) -> str:
    """A value as the language spells it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _arithmetic(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(number(a), int) and isinstance(number(b), int):
            return check_int(apply(a, b))
        return apply(float(a), float(b))

    return run


def _divide(a: Any, b: Any) -> float:
    if number(b) == 0:
        raise Fault("K209", "division by zero")
    return float(number(a)) / float(b)


def _floor_divide(a: Any, b: Any) -> int:
    if integer(b) == 0:
        raise Fault("K209", "division by zero")
    return check_int(integer(a) // b)


def _modulo(a: Any, b: Any) -> int:
    if integer(b) == 0:
        raise Fault("K209", "division by zero")
    return integer(a) % integer(b)


def _comparison(apply: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(a: Any, b: Any) -> bool:
        if isinstance(number(a), int) and isinstance(number(b), int):
            return apply(a, b)
        return apply(float(a), float(b))

    return run


def equal(a: Any, b: Any) -> bool:
    """Whether two numbers, two bools or two words are the same."""
    if isinstance(a, str) != isinstance(b, str) or isinstance(a, bool) != isinstance(b, bool):
        raise Fault("K208", f"cannot compare {show(a)} with {show(b)}")
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
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
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
    if any(isinstance(number(value), float) for value in values):
        values = [float(value) for value in values]
    best = values[0]
    for value in values[1:]:
        best = value if better(value, best) else best
    return best


def _absolute(value: Any) -> Any:
    return check_int(abs(value)) if isinstance(number(value), int) else abs(value)


def _ceil_div(a: Any, b: Any) -> int:
    if integer(b) == 0:
        raise Fault("K209", "division by zero")
    return check_int(-(-integer(a) // b))


def _align(value: Any, unit: Any) -> int:
    return check_int(_ceil_div(value, unit) * integer(unit))


def _logarithm(base: str, apply: Callable[[float], float]) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        if not number(value) > 0:
            raise Fault("K211", f"{base} of {value}: the argument must be above 0")
        return apply(float(value))

    return run


def _root(value: Any) -> float:
    if not number(value) >= 0:
        raise Fault("K211", f"sqrt of {value}: the argument must not be negative")
    return math.sqrt(value)


def _power(apply: Callable[[float], float]) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        try:
            return apply(float(number(value)))
        except OverflowError:
            return math.inf

    return run


def _rounding(apply: Callable[[float], int]) -> Callable[[Any], int]:
    def run(value: Any) -> int:
        if isinstance(number(value), float) and not math.isfinite(value):
            raise Fault("K211", f"{value} has no integer part")
        return check_int(apply(value))

    return run


def _sizeof(dtype: Any) -> int:
    if dtype not in DTYPES:
        raise Fault("K204", f"unknown dtype {show(dtype)}", choice_hint(str(dtype), list(DTYPES)))
    return DTYPES[dtype]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": _least,
    "max": _greatest,
    "abs": _absolute,
    "ceil_div": _ceil_div,
    "align": _align,
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "float": lambda value: float(number(value)),
    "sqrt": _root,
    "exp": _power(math.exp),
    "exp2": _power(lambda value: math.pow(2.0, value)),
    "log": _logarithm("log", math.log),
    "log2": _logarithm("log2", math.log2),
    "tanh": lambda value: math.tanh(number(value)),
    "sizeof": _sizeof,
}
