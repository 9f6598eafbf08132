"""Arguments as Python gives them, in spec terms: torch tensors, numbers, or bare sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from operator import index as operator_index
from types import NoneType
from typing import Any

import torch

from kgen.diagnostics import Collector, KgenError, choice_hint
from kgen.dispatch import codes
from kgen.dispatch.errors import fault
from kgen.dispatch.model import Bound, Call, Names, View
from kgen.dispatch.operators import Operator
from kgen.dispatch.views import byte_view
from kgen.fp8 import BY_TORCH, Format
from kgen.manifest import HEADER, Policy

_DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
}
_FP8: Mapping[torch.dtype, Format] = {getattr(torch, name): one for name, one in BY_TORCH.items()}


def call_of(operator: Operator, arguments: Sequence[Any]) -> Call:
    """A call from its positional arguments. Raises KgenError (K510, K513)."""
    values = dict(zip((*operator.tensors, *operator.scalars, *operator.keywords), arguments, strict=True))
    lacking = sorted(name for name in operator.together if values[name] is None)
    if 0 < len(lacking) < len(operator.together):
        named = " and ".join(sorted(operator.together))
        raise fault("K510", f"{operator.name}: {named} are given together; {', '.join(lacking)} is not there")
    return Call(
        tensors={name: _tensor(operator, name, values[name]) for name in operator.tensors},
        scalars={name: _scalar(operator, name, values[name]) for name in operator.scalars},
        keywords={name: values[name] for name in operator.keywords if name != "policy"},
        policy=values.get("policy"),
    )


def plain(operator: Operator, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments as torch's dispatcher takes them: tensors, Python numbers and strings.

    Raises KgenError (K510, K516) for what is none of these where one belongs.
    """
    split = len(operator.tensors)
    for name, value in zip(operator.tensors, arguments[:split], strict=True):
        if not isinstance(value, torch.Tensor) and not (value is None and name in operator.optional):
            raise _no_tensor(operator, name, value)
    rest = dict(zip((*operator.scalars, *operator.keywords), arguments[split:], strict=True))
    for name, kind in operator.keywords.items():
        if not isinstance(rest[name], _KEYWORDS[kind]):
            raise fault("K516", f"{operator.name}: {name}={rest[name]!r}, but {name} is an {kind}")
    return (
        *arguments[:split],
        *(_scalar(operator, n, v) if n in operator.scalars else v for n, v in rest.items()),
    )


_SYMBOLS = (torch.SymInt, torch.SymFloat)
_KEYWORDS = {"int": (int, torch.SymInt, NoneType), "str": (str, NoneType)}


def shapes_of(operator: Operator, arguments: Sequence[Any]) -> Mapping[str, tuple[int, ...]]:
    """The shapes of the tensors of a call that are there."""
    pairs = zip(operator.tensors, arguments, strict=False)
    return {name: tuple(tensor.shape) for name, tensor in pairs if tensor is not None}


def bound_sizes(policy: Policy, sizes: Names) -> Bound:
    """A call given by sizes alone: parameters, the facts its axes would define, int scalars, and
    `policy`. A free parameter among them is one the caller insists on.

    Raises KgenError (K516) for names the operator does not have.
    """
    unknowable = {*HEADER, *(name for name, _ in policy.facts)}
    facts = [w.name for w in policy.words if w.kind in ("fact", "int") and w.name not in unknowable]
    known = [*dict.fromkeys([*(rule.name for rule in policy.params), *facts]), "policy"]
    found = Collector()
    for name in sizes:
        if name not in known:
            found.add("K516", f"{policy.op} has no parameter or size '{name}'", hint=choice_hint(name, known))
    found.check()
    free = codes.free_params(policy)
    return Bound(
        names={name: value for name, value in sizes.items() if name not in (*free, "policy")},
        requested={name: value for name, value in sizes.items() if name in free},
        strides={},
        scalars={},
        absent=frozenset(),
        device="cpu",
        policy=str(sizes["policy"]) if "policy" in sizes else None,
    )


def view(tensor: torch.Tensor) -> View:
    """What binding sees of a tensor."""
    if tensor.layout != torch.strided:
        kind = str(tensor.layout).removeprefix("torch.")
        raise fault("K513", f"a tensor is {kind}; kernels read strided ones")
    shape, strides, device = tuple(tensor.shape), tuple(tensor.stride()), str(tensor.device)
    if (fp8 := _FP8.get(tensor.dtype)) is not None:
        return View(shape, strides, fp8.dtype, device, fp8.torch)
    dtype = _DTYPES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    return View(shape, strides, dtype, device)


def _tensor(operator: Operator, name: str, tensor: Any) -> View | None:
    if tensor is None:
        return None
    if not isinstance(tensor, torch.Tensor):
        raise _no_tensor(operator, name, tensor)
    found = view(tensor)
    return byte_view(name, found, tensor.element_size()) if name in operator.bytes else found


def _no_tensor(operator: Operator, name: str, value: Any) -> KgenError:
    return fault("K510", f"{operator.name}: {name} must be a tensor, found {type(value).__name__}")


def _scalar(operator: Operator, name: str, value: Any) -> int | float | None:
    """A number; whatever converts to one exactly counts, such as a tensor of one element."""
    if value is None:
        return None
    convert = operator_index if operator.scalars[name] == "int" else float
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        if not isinstance(value, bool | str):
            number: int | float = convert(value)
            return number
    kind = {"int": "an integer", "float": "a number"}[operator.scalars[name]]
    raise fault("K510", f"{operator.name}: {name} must be {kind}, found {type(value).__name__}")
