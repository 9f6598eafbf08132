"""Places in a wave as C++ text: what a table over lanes and elements says, as an expression.

Lane maps of matrix instructions deal out rows and columns by the bits of the lane and of the element:
a place is a constant plus a weight for each bit that is set. Runs of bits whose weights double read as
one term, `lane / 16 * 4`, so that a kernel shows the map as a person would write it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A C++ expression of a few int variables."""

    text: str

    def parameters(self, *names: str) -> str:
        """The parameters of a function that returns it; those it does not use have no name."""
        used = set(re.findall(r"[a-z_]+", self.text))
        return ", ".join(f"int {name}" if name in used else "int" for name in names)

    def __str__(self) -> str:
        return self.text


def place(extents: Mapping[str, int], value: Callable[..., int]) -> Place | None:
    """The expression of `value(*variables)`, each variable below its extent, a power of two.

    None where the values are no sum over bits."""
    origin = [0] * len(extents)
    constant = value(*origin)
    weights: list[list[int]] = []
    for index, extent in enumerate(extents.values()):
        bits = extent.bit_length() - 1
        weights.append([value(*_with(origin, index, 1 << bit)) - constant for bit in range(bits)])
    for at in itertools.product(*map(range, extents.values())):
        if value(*at) != constant + sum(_sum(own, x) for own, x in zip(weights, at, strict=True)):
            return None
    terms = [term for name, own in zip(extents, weights, strict=True) for term in _terms(name, own)]
    if constant or not terms:
        terms.append(str(constant))
    return Place(" + ".join(terms))


def _with(origin: list[int], index: int, value: int) -> list[int]:
    return [*origin[:index], value, *origin[index + 1 :]]


def _sum(weights: list[int], value: int) -> int:
    return sum(weight for bit, weight in enumerate(weights) if value >> bit & 1)


def _terms(name: str, weights: list[int]) -> list[str]:
    """One term for each run of bits whose weights double."""
    terms = []
    bit = 0
    while bit < len(weights):
        end = bit + 1
        while end < len(weights) and weights[bit] and weights[end] == weights[end - 1] * 2:
            end += 1
        if weights[bit]:
            terms.append(_term(name, bit, end, len(weights), weights[bit]))
        bit = end
    return terms


def _term(name: str, first: int, end: int, bits: int, weight: int) -> str:
    text = name
    if first:
        text += f" / {1 << first}"
    if end < bits:
        text += f" % {1 << (end - first)}"
    return text if weight == 1 else f"{text} * {weight}"
