"""Element offsets into tensors and KV caches, as simplified C++ text.

A template names the place in each axis, as a number or in kgen's expression language; the layout
says what is multiplied by which stride of the argument block. The innermost axis has stride 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kgen.algebra.bounds import Bounds
from kgen.algebra.simplify import simplify
from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.layout import AXES, CACHE_SIZES, TensorOrder
from kgen.manifest import Scalar
from kgen.render.cpp import print_cpp
from kgen.semantics import DTYPES
from kgen.spec.model import ArgumentSpec
from kgen.syntax.ast import Attr, Binary, Expr, Int, Name, names_of, rebuild, walk
from kgen.syntax.parser import parse_expr
from kgen.variants.model import Variant
from kgen.variants.policy import strided_axes

Place = str | int
_BLOCK = "a"


@dataclass(frozen=True)
class Term:
    """One addend of an offset: the place in an axis times the stride named by a word ("" is 1)."""

    place: Expr
    stride: str


class Indexer:
    """The functions `index` and `extent` of a template's context."""

    def __init__(self, variant: Variant) -> None:
        self._op = variant.op
        self._values: Mapping[str, Scalar] = {**variant.lets, **variant.params}
        self._arguments = {a.name: a for a in variant.op.arguments if a.kind in ("tensor", "cache")}

    def index(self, tensor: str, **places: Place) -> str:
        """The element offset of one place; an axis that is left out counts 0.

        `index("k_cache", block="page", head="kv_head", token="slot", dim=0)`. Raises KgenError for
        a tensor or an axis the operator does not have, or a place that is no expression.
        """
        argument = self._argument(tensor)
        axes = self._axes(argument)
        for axis in places:
            if axis not in axes:
                message = f"{tensor} has no axis '{axis}'"
                raise KgenError(Diagnostic("K335", message, hint=choice_hint(axis, axes)))
        exprs = {axis: place_of(places.get(axis, 0)) for axis in axes}
        return _print(tuple(self._terms(argument, exprs)))

    def extent(self, tensor: str) -> str:
        """One more than the largest element offset of a tensor that is not empty."""
        argument = self._argument(tensor)
        lasts: dict[str, Expr] = {}
        for axis, size in self._sizes(argument).items():
            lasts[axis] = Binary("-", size, Int(1))
        return _print((*self._terms(argument, lasts), Term(Int(1), "")))

    def size(self, tensor: str, axis: str) -> str:
        """How many places an axis of a tensor has."""
        return _print((Term(self._sizes(self._argument(tensor))[axis], ""),))

    def _argument(self, tensor: str) -> ArgumentSpec:
        if tensor in self._arguments:
            return self._arguments[tensor]
        hint = choice_hint(tensor, list(self._arguments))
        raise KgenError(Diagnostic("K335", f"{self._op.name} has no tensor '{tensor}'", hint=hint))

    def _axes(self, argument: ArgumentSpec) -> Sequence[str]:
        return AXES if argument.kind == "cache" else [axis.name for axis in argument.axes]

    def _sizes(self, argument: ArgumentSpec) -> Mapping[str, Expr]:
        if argument.kind == "cache":
            return {axis: self._size(Name(CACHE_SIZES[axis])) for axis in AXES}
        return {axis.name: self._size(axis.size) for axis in argument.axes}

    def _size(self, size: Expr) -> Expr:
        """A size in terms of parameters' values and words of the argument block."""
        if not isinstance(size, Name):
            return rebuild(size, self._size)
        value = self._values.get(size.name)
        return Int(value) if isinstance(value, int) else _word(size.name)

    def _terms(self, argument: ArgumentSpec, places: Mapping[str, Expr]) -> list[Term]:
        if argument.kind == "cache":
            return self._cache_terms(argument, places)
        strided = strided_axes(argument)
        return [
            Term(place, f"{argument.name}_stride_{axis}" if axis in strided else "")
            for axis, place in places.items()
        ]

    def _cache_terms(self, argument: ArgumentSpec, places: Mapping[str, Expr]) -> list[Term]:
        order = self.order(argument.cache)
        if order is None:
            raise KgenError(Diagnostic("K335", f"the axis order of {argument.name} is not known here"))
        width = order.width(DTYPES[str(self._dtype(argument))])
        terms = []
        for axis in order.axes:
            place = places["dim" if axis == "inner" else axis]
            if order.split is not None and axis == "dim":
                place = Binary("//", place, Int(width))
            elif axis == "inner":
                place = Binary("%", place, Int(width))
            terms.append(Term(place, "" if axis == order.innermost else f"{argument.name}_stride_{axis}"))
        return terms

    def order(self, cache: str) -> TensorOrder | None:
        """The axis order of the K or V cache (`k`, `v`), None where none is known."""
        param = next((p for p in self._op.params if p.type == "layout"), None)
        return self._op.layouts[str(self._values[param.name])].order(cache) if param else None

    def _dtype(self, argument: ArgumentSpec) -> Scalar:
        return self._values.get(argument.dtype, argument.dtype)


def _word(name: str) -> Expr:
    """A word of the argument block, as C++ reads it."""
    return Name(f"{_BLOCK}.{name}")


@lru_cache(maxsize=4096)
def place_of(place: Place) -> Expr:
    """A number, or an expression over C++ variables that are never negative; `a.x` is a word of the block."""
    if isinstance(place, int):
        return Int(place)
    try:
        return _words(parse_expr(place))
    except KgenError as error:
        faults = [f"'{place}': {d.message}" for d in error.diagnostics]
        raise KgenError(Diagnostic("K335", fault) for fault in faults) from None


def _words(expr: Expr) -> Expr:
    """`a.num_seqs` in a template's text is a word of the argument block."""
    if isinstance(expr, Attr) and expr.base.name == _BLOCK:
        return _word(expr.name)
    return rebuild(expr, _words)


@lru_cache(maxsize=4096)
def _print(terms: tuple[Term, ...]) -> str:
    total: Expr = Int(0)
    for term in terms:
        step = Binary("*", term.place, _word(term.stride)) if term.stride else term.place
        total = Binary("+", total, step)
    bounds = _bounds(total)
    return print_cpp(simplify(total, bounds), bounds)


def _bounds(expr: Expr) -> Bounds:
    """Places and strides are never negative, and what divides is not 0 either."""
    divisors = {
        node.right.name
        for node in walk(expr)
        if isinstance(node, Binary) and node.op in ("//", "%") and isinstance(node.right, Name)
    }
    return {name: (int(name in divisors), None) for name in names_of(expr)}
