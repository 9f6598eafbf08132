"""The operators as torch knows them: `torch.ops.kgen.*`, so that compiled graphs hold them.

Each is void and writes the tensors its schema marks. Eager calls do not come this way, which costs
several microseconds; traced ones, tensor subclasses and dispatch modes do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kgen.dispatch.operators import OPERATORS, Operator
from kgen.dispatch.variants import PACKED

NAMESPACE = "kgen"
_TYPES = {"int": "SymInt?", "float": "float?", "str": "str?"}
_LIBRARY: Any = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]


def schema(operator: Operator) -> str:
    """The operator's schema: positional, what is written marked as aliased."""
    written = [name for name in operator.tensors if name in operator.writes]
    parts = []
    for name in operator.tensors:
        alias = f"({chr(ord('a') + written.index(name))}!)" if name in operator.writes else ""
        parts.append(f"Tensor{alias}{'?' if name in operator.optional else ''} {name}")
    for name, kind in (*operator.scalars.items(), *operator.keywords.items()):
        parts.append(f"{_TYPES[kind]} {name}")
    if operator.has_variants:
        parts.append(PACKED)
    return f"{operator.name}({', '.join(parts)}) -> ()"


def define(run: Callable[[Operator], Callable[..., None]]) -> None:
    """Define every operator; `run` gives what executes one on plain tensors."""
    for operator in OPERATORS.values():
        _LIBRARY.define(schema(operator), tags=(torch.Tag.pt2_compliant_tag,))
        _LIBRARY.impl(operator.name, run(operator), "CompositeExplicitAutograd")
        _LIBRARY.impl(operator.name, _no_result, "Meta")


def _no_result(*_arguments: Any) -> None:
    """The fake form: nothing is returned, so there is nothing to describe."""
