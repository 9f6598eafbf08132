"""Masks and scores over tensors: what their expressions give at many points at once, for the oracle.

The same meaning as `kgen.semantics.evaluate`, point by point. Where that raises (a division by zero) the
value here is arbitrary; so are the sides of an `if`, an `and` or an `or` that are not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import reference
from kgen.spec.model import VariantSpec
from kgen.syntax.ast import (
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
    Unary,
)

Value = Any
"""A tensor, or a number that stands for the same at every point."""


def mask_of(variant: VariantSpec, args: Mapping[str, Value]) -> reference.Mask | None:
    """The variant's mask for the oracle; None where every key is visible.

    args: single values as numbers; arrays as tensors: [heads], [sequences], [rows] of queries,
    [sequences, positions] of keys.
    """
    return None if variant.mask is None else _callable(variant.mask, args)


def score_of(variant: VariantSpec, args: Mapping[str, Value]) -> reference.Score | None:
    """The variant's score for the oracle; None where it is s itself."""
    return None if variant.score is None else _callable(variant.score, args)


def _callable(expr: Expr, args: Mapping[str, Value]) -> Callable[[reference.Point], Tensor]:
    def at(point: reference.Point) -> Tensor:
        names = {**args, **positions(point)}
        return _tensor(over(expr, names)).expand_as(point.s)

    return at


def noting(mask: reference.Mask | None, score: reference.Score | None, sizes: Tensor) -> reference.Score:
    """The score, which writes to sizes [rows, heads] how large the visible logits get."""

    def at(point: reference.Point) -> Tensor:
        logits = point.s if score is None else score(point)
        if logits.numel():
            seen = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask(point)
            sizes[point.row.flatten()] = logits.abs().masked_fill(~seen, 0.0).amax(-1).T
        return logits

    return at


def positions(point: reference.Point) -> Mapping[str, Value]:
    """The names of positions, and of the rows that arrays over q and kv are indexed by."""
    return {
        "q": point.q,
        "kv": point.kv,
        "head": point.head,
        "batch": point.batch,
        "s": point.s,
        "q row": point.row,
    }


def over(expr: Expr, names: Mapping[str, Value]) -> Value:
    """The value of `expr` where names stand for tensors that broadcast, or for numbers."""
    match expr:
        case Int() | Float() | Bool():
            return expr.value
        case Name():
            return names[expr.name]
        case Index(base=Name(name=array), index=Name(name=axis)):
            return _element(names, array, axis)
        case If():
            sides = over(expr.then, names), over(expr.otherwise, names)
            return torch.where(*map(_tensor, (over(expr.condition, names), *sides)))
        case Compare():
            return _compare(expr.ops, [over(part, names) for part in expr.operands])
        case In():
            item = over(expr.item, names)
            return _any([_tensor(item == over(choice, names)) for choice in expr.choices])
        case Unary():
            value = over(expr.operand, names)
            return ~_tensor(value) if expr.op == "not" else -value
        case Binary():
            return _BINARY[expr.op](over(expr.left, names), over(expr.right, names))
        case Call():
            return _FUNCTIONS[expr.function](*(over(arg, names) for arg in expr.args))
    raise TypeError(f"no value over tensors for {type(expr).__name__}")


def _element(names: Mapping[str, Value], array: str, axis: str) -> Value:
    values = torch.as_tensor(names[array])
    values = values.long() if not values.is_floating_point() else values.double()
    if axis == "kv":
        return values[names["batch"]][names["kv"]]
    return values[names["q row" if axis == "q" else axis]]


def _compare(ops: tuple[str, ...], values: list[Value]) -> Tensor:
    pairs = zip(ops, values, values[1:], strict=False)
    return ~_any([~_tensor(_COMPARE[op](a, b)) for op, a, b in pairs])


def _any(values: list[Tensor]) -> Tensor:
    found = values[0]
    for value in values[1:]:
        found = found | value
    return found


def _tensor(value: Value) -> Tensor:
    """A number as an int64, float64 or bool tensor."""
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _real(apply: Callable[[Tensor], Tensor]) -> Callable[[Value], Tensor]:
    return lambda value: apply(_tensor(value).double())


def _floor(a: Value, b: Value) -> Value:
    return torch.div(_tensor(a), _tensor(b), rounding_mode="floor")


def _extreme(pick: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Value]:
    def run(*values: Value) -> Value:
        found = _tensor(values[0])
        for value in values[1:]:
            found = pick(found, _tensor(value))
        return found

    return run


_COMPARE: Mapping[str, Callable[[Value, Value], Value]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_BINARY: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: _tensor(a).double() / b,
    "//": _floor,
    "%": lambda a, b: torch.remainder(_tensor(a), _tensor(b)),
    "and": lambda a, b: _tensor(a) & _tensor(b),
    "or": lambda a, b: _tensor(a) | _tensor(b),
    "implies": lambda a, b: ~_tensor(a) | _tensor(b),
}
_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "min": _extreme(torch.minimum),
    "max": _extreme(torch.maximum),
    "abs": lambda a: _tensor(a).abs(),
    "ceil_div": lambda a, b: -_floor(-_tensor(a), b),
    "align": lambda a, b: -_floor(-_tensor(a), b) * b,
    "floor": lambda a: _real(torch.floor)(a).long(),
    "ceil": lambda a: _real(torch.ceil)(a).long(),
    "float": _real(lambda a: a),
    "sqrt": _real(torch.sqrt),
    "exp": _real(torch.exp),
    "exp2": _real(torch.exp2),
    "log": _real(torch.log),
    "log2": _real(torch.log2),
    "tanh": _real(torch.tanh),
}
