"""The caller in Python and ctypes, for where the compiled binding cannot be had."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kgen.dispatch import gpu
from kgen.dispatch.block import float_bits
from kgen.dispatch.launch import MAX_PLANS, TENSOR_TYPES, Services, Signature, in_key, with_threads
from kgen.dispatch.plan import Plan, covers, moved
from kgen.manifest import HEADER

_STEERING = ("KGEN_LIBRARY", "KGEN_CACHE_DIR", "KGEN_ARCH", "KGEN_JIT", "KGEN_NUM_THREADS", "KGEN_CHECK")
_ERROR, _PARALLEL, _THREAD_NUM, _THREADS = (
    HEADER.index(name) for name in ("error", "parallel", "thread_num", "num_threads")
)


Values = Mapping[str, Any]
"""Scalars and extents of a call by name."""


@dataclass(frozen=True)
class Ready:
    """A plan as ctypes launches it."""

    plan: Plan
    kernel: Callable[[Any], int] | None


class PlainCaller:
    """The caller in Python and ctypes."""

    def __init__(self, signature: Signature, services: Services) -> None:
        self._signature = signature
        self._services = services
        self._plans: dict[Any, list[Ready]] = {}
        self._kept = 0
        self._environment = (*_STEERING, *signature.environment)
        self._in_key = in_key(signature)
        self._tensors = len(signature.tensors)
        self._keywords = self._tensors + len(signature.scalars)

    def __call__(self, *arguments: Any) -> bool:
        tensors = arguments[: self._tensors]
        if torch._C._len_torch_dispatch_stack() or not all(map(_plain, tensors)):
            return False
        try:
            values = values_of(self._signature, arguments)
            key = self._key(tensors, arguments, values)
            ready = self._find(key, values)
            pointers = tuple(0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        except (RuntimeError, TypeError):  # wrapped tensors without storage; keywords without a hash
            return False
        if ready is None:
            ready = self._make(key, arguments)
        run_plan(ready, self._signature, self._services, pointers, values)
        return True

    def _key(self, tensors: tuple[Any, ...], arguments: tuple[Any, ...], values: Values) -> Any:
        """Everything a plan depends on but its ranges; types too, since 1, 1.0 and True are equal."""
        scalars = zip(self._in_key, arguments[self._tensors : self._keywords], strict=True)
        keywords = arguments[self._keywords :]
        extents = self._signature.extents
        counts = [values.get(extents.get(name, "")) for name in self._signature.tensors]
        return (
            tuple(map(os.environ.get, self._environment)),
            tuple(
                None if t is None else (_told_apart(t.shape, count), t.stride(), t.dtype, t.device)
                for t, count in zip(tensors, counts, strict=True)
            ),
            tuple((type(value), value if keyed else None) for keyed, value in scalars),
            tuple((type(value), value) for value in keywords),
        )

    def _make(self, key: Any, arguments: tuple[Any, ...]) -> Ready:
        plan = self._services.make_plan(*arguments)
        if self._kept >= MAX_PLANS:
            self._plans.clear()
            self._kept = 0
        ready = ready_plan(plan)
        self._plans.setdefault(key, []).append(ready)
        self._kept += 1
        return ready

    def _find(self, key: Any, values: Values) -> Ready | None:
        """The plan of this key whose ranges hold the values; the newest is looked at first."""
        plans = self._plans.get(key, ())
        return next((ready for ready in reversed(plans) if covers(ready.plan, values)), None)


def values_of(signature: Signature, arguments: Sequence[Any]) -> Values:
    """The scalars of a call and the extents that its tensors have, the first of them where they disagree."""
    split = len(signature.tensors)
    tensors = dict(zip(signature.tensors, arguments, strict=False))
    values = dict(zip(signature.scalars, arguments[split:], strict=False))
    for tensor, name in signature.extents.items():
        if tensors[tensor] is not None and tensors[tensor].dim():
            values.setdefault(name, tensors[tensor].shape[0])
    return values


def _told_apart(shape: Sequence[int], count: int | None) -> tuple[int, ...]:
    """The part of a shape that tells plans apart, where its first axis should count `count`."""
    return tuple(shape[1:]) if count is not None and shape and shape[0] == count else (-1, *shape)


def _plain(tensor: object) -> bool:
    return tensor is None or type(tensor) in TENSOR_TYPES


def ready_plan(plan: Plan) -> Ready:
    """The plan with its kernel as a ctypes function and the thread runtime filled in."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    ready = replace(plan, words=with_threads(plan))
    return Ready(ready, prototype(plan.address) if plan.address else None)


def run_plan(
    ready: Ready,
    signature: Signature,
    services: Services,
    pointers: tuple[int, ...],
    values: Values,
) -> None:
    """Fill in what changes from call to call and run the kernel; raises what it reports."""
    if ready.kernel is None and ready.plan.launcher is None:
        return
    plan, told = moved(ready.plan, values), _told(signature, values)
    _keep_apart(plan, services, told, dict(zip(signature.tensors, pointers, strict=True)))
    words = list(plan.words)
    for name, pointer in zip(signature.tensors, pointers, strict=True):
        if name in plan.pointers:
            words[plan.pointers[name]] = pointer
    for name, is_float in signature.scalars.items():
        value = values[name]
        if value is not None and name in plan.scalars:
            words[plan.scalars[name]] = float_bits(float(value)) if is_float else int(value)
    if plan.launcher is not None:
        _start(plan, plan.launcher, services, words, told)
    elif ready.kernel is not None:
        _call(plan, ready.kernel, services, words, told)
    plan.calls.value += 1
    if plan.launcher is not None and plan.launcher.checked:
        services.wait(plan)


def _told(signature: Signature, values: Values) -> tuple[int, ...]:
    """What services are told of the values: ints, 0 for what is not there."""
    return tuple(int(values.get(name) or 0) for name in signature.values)


def _keep_apart(plan: Plan, services: Services, told: tuple[int, ...], pointers: Mapping[str, int]) -> None:
    for place, pair in enumerate(plan.pairs):
        apart = pointers[pair.other] - pointers[pair.written]
        if -pair.second.span < apart < pair.first.span:
            services.overlap(plan, told, place, apart)


def _call(
    plan: Plan, kernel: Callable[[Any], int], services: Services, words: list[int], told: tuple[int, ...]
) -> None:
    if plan.workspace_size:
        _place_workspace(plan, words, services.workspace(plan.workspace_size))
    count = plan.threads or torch.get_num_threads()
    words[_THREADS] = max(count, 1)
    if count <= 1:
        words[_PARALLEL] = words[_THREAD_NUM] = 0
    error = (ctypes.c_int64 * 4)()
    words[_ERROR] = ctypes.addressof(error)
    status = kernel((ctypes.c_int64 * len(words))(*words))
    if status:
        services.fail(plan, told, status, *error)


def _start(
    plan: Plan, launcher: gpu.Launcher, services: Services, words: list[int], told: tuple[int, ...]
) -> None:
    misplaced = gpu.misplaced(launcher, words)
    if misplaced is not None:
        services.fail(plan, told, misplaced[0], *misplaced)
    stream = services.stream(launcher.device)
    if plan.workspace_size:
        _place_workspace(plan, words, services.workspace(plan.workspace_size, launcher.memory, stream))
    words[_ERROR] = launcher.error
    launcher.start((ctypes.c_int64 * len(words))(*words), stream)


def _place_workspace(plan: Plan, words: list[int], base: int) -> None:
    for place, offset in plan.workspace.items():
        words[place] = base + offset
