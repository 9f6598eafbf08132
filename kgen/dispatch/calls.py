"""Calls of operators: the dispatcher of the process, and the ways from Python's arguments to a launch.

An eager call on plain tensors goes straight to the caller of its operator; one that is traced, or has tensor
subclasses, goes through torch's dispatcher and comes back to the same caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch import torchops
from kgen.dispatch.arguments import plain
from kgen.dispatch.dispatcher import Dispatcher
from kgen.dispatch.errors import fault
from kgen.dispatch.model import Compiler
from kgen.dispatch.operators import OPERATORS, Operator
from kgen.dispatch.variants import operator_with, ordered, pack, unpack
from kgen.manifest import Scalar, VariantRule

_lock = threading.RLock()
_compiler: Callable[[], Compiler] | None = None
_dispatcher: Dispatcher | None = None


class _Calls(dict[str, Callable[..., bool]]):
    """Callers by operator name, made at first use."""

    def __missing__(self, name: str) -> Callable[..., bool]:
        with _lock:
            caller = self[name] = dispatcher().caller(OPERATORS[name])
        return caller


CALLS = _Calls()
_Chosen = tuple[VariantRule, Callable[..., bool]]
_VARIANT_CALLS: dict[tuple[str, str], _Chosen] = {}
"""Callers by operator and variant, of calls that choose one."""
_SHIPPED_CALLS: dict[tuple[str, str | None], _Chosen] = {}
"""The same by the name a call gives, of variants that no build can change."""


def install(compiler: Callable[[], Compiler]) -> None:
    """Say where policies and kernels that are not built come from; a second time changes nothing."""
    global _compiler
    if _compiler is not compiler:
        _compiler = compiler
        reset()


def dispatcher() -> Dispatcher:
    """The dispatcher of this process."""
    global _dispatcher
    with _lock:
        if _dispatcher is None:
            if _compiler is None:
                raise KgenError(Diagnostic("K529", "no compiler is installed", hint="import kgen.ops"))
            _dispatcher = Dispatcher(_compiler())
        return _dispatcher


def reset() -> None:
    """Forget every plan, kernel, policy and workspace."""
    global _dispatcher
    with _lock:
        _dispatcher = None
        CALLS.clear()
        _VARIANT_CALLS.clear()
        _SHIPPED_CALLS.clear()


def check() -> None:
    """Raise what kernels reported since the last check. A CPU kernel's faults are raised by the call
    itself; a GPU kernel's wait here, since a call does not wait for the device (KGEN_CHECK=1: each
    call does, and raises itself)."""
    if _dispatcher is not None:
        _dispatcher.check()


def workspace_size(op: str, /, **sizes: Scalar) -> int:
    """Bytes of scratch memory a call of operator `op` uses, without making the call.

    sizes: what the tensors of the call would say (num_seqs, num_heads, num_kv_heads, head_dim,
    block_size, dtype, ...), its keywords (max_seq_len, layout, partition_size, policy, ...) by name.
    """
    return dispatcher().workspace_size(op, sizes)


def launch_variant(
    name: str, variant: str | None, variant_args: Mapping[str, Any] | None, *arguments: Any
) -> None:
    """A call of an operator that chooses a mask and score; `arguments` are those without it."""
    if is_dynamo_compiling() or not _call_variant(name, variant, variant_args or {}, arguments):
        through_torch(name, *arguments, variant_args=variant_args)


def _call_variant(
    name: str, variant: str | None, variant_args: Mapping[str, Any], arguments: Sequence[Any]
) -> bool:
    """Launch with the arguments of the variant in their places; False as a caller answers it."""
    rule, caller = _SHIPPED_CALLS.get((name, variant)) or _choose(name, variant)
    if not (rule.args or variant_args):
        return caller(*arguments)
    arrays, singles = ordered(name, rule, variant_args)
    return caller(*_placed(OPERATORS[name], arguments, arrays, singles))


def _choose(name: str, variant: str | None) -> _Chosen:
    """The variant of a call, and the caller for it. Raises KgenError (K516, K524)."""
    rule = dispatcher().rule(name, variant)
    if rule is None:
        raise fault("K516", f"{name} has no variants")
    with _lock:
        held = _VARIANT_CALLS.get((name, rule.name))
        if held is None or held[0] is not rule:
            caller = dispatcher().caller(operator_with(OPERATORS[name], rule))
            held = _VARIANT_CALLS[name, rule.name] = rule, caller
        if rule in dispatcher().policy(name).variants:
            _SHIPPED_CALLS[name, variant] = held
    return held


def _placed(
    operator: Operator, arguments: Sequence[Any], arrays: Sequence[Any], singles: Sequence[Any]
) -> list[Any]:
    """The arguments of a call with those of its variant behind the tensors and the scalars."""
    tensors = len(operator.tensors)
    scalars = tensors + len(operator.scalars)
    return [*arguments[:tensors], *arrays, *arguments[tensors:scalars], *singles, *arguments[scalars:]]


def through_torch(name: str, *arguments: Any, variant_args: Mapping[str, Any] | None = None) -> None:
    """The call as torch's dispatcher, a tracer or a tensor subclass sees it."""
    if not is_dynamo_compiling():
        arguments = plain(OPERATORS[name], arguments)
    packed = pack(variant_args) if OPERATORS[name].has_variants else ()
    getattr(torch.ops.kgen, name)(*arguments, *packed)


def _run(operator: Operator) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        if not CALLS[operator.name](*arguments):
            dispatcher().run(operator, *arguments)

    return _run_variant(operator) if operator.has_variants else run


def _run_variant(operator: Operator) -> Callable[..., None]:
    place = list(operator.keywords).index("variant") - len(operator.keywords)
    count = len(operator.tensors) + len(operator.scalars) + len(operator.keywords)

    def run(*arguments: Any) -> None:
        plain_arguments, packed = arguments[:count], arguments[count:]  # torch leaves defaults out
        variant, given = plain_arguments[place], unpack(*packed)
        if _call_variant(operator.name, variant, given, plain_arguments):
            return
        rule = dispatcher().rule(operator.name, variant)
        if rule is not None:
            arrays, singles = ordered(operator.name, rule, given)
            with_rule = operator_with(operator, rule)
            dispatcher().run(with_rule, *_placed(operator, plain_arguments, arrays, singles))

    return run


torchops.define(_run)
