"""The caller in Python and ctypes, for where the compiled binding cannot be had."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
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
            key = self._key(tensors, arguments)
            ready = self._find(key, arguments)
            pointers = tuple(0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        except (RuntimeError, TypeError):  # wrapped tensors without storage; keywords without a hash
            return False
        if ready is None:
            ready = self._make(key, arguments)
        scalars = arguments[self._tensors : self._keywords]
        run_plan(ready, self._signature, self._services, pointers, scalars)
        return True

    def _key(self, tensors: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """Everything a plan depends on but its ranges; types too, since 1, 1.0 and True are equal."""
        scalars = zip(self._in_key, arguments[self._tensors : self._keywords], strict=True)
        keywords = arguments[self._keywords :]
        return (
            tuple(map(os.environ.get, self._environment)),
            tuple(None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in tensors),
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

    def _find(self, key: Any, arguments: tuple[Any, ...]) -> Ready | None:
        """The plan of this key whose ranges hold the scalars; the newest is looked at first."""
        plans = self._plans.get(key)
        if not plans:
            return None
        scalars = dict(zip(self._signature.scalars, arguments[self._tensors : self._keywords], strict=True))
        return next((ready for ready in reversed(plans) if covers(ready.plan, scalars)), None)


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
    scalars: tuple[Any, ...],
) -> None:
    """Fill in what changes from call to call and run the kernel; raises what it reports."""
    if ready.kernel is None and ready.plan.launcher is None:
        return
    plan = moved(ready.plan, dict(zip(signature.scalars, scalars, strict=True)))
    _keep_apart(plan, services, dict(zip(signature.tensors, pointers, strict=True)))
    words = list(plan.words)
    for name, pointer in zip(signature.tensors, pointers, strict=True):
        if name in plan.pointers:
            words[plan.pointers[name]] = pointer
    for (name, is_float), value in zip(signature.scalars.items(), scalars, strict=True):
        if value is not None and name in plan.scalars:
            words[plan.scalars[name]] = float_bits(float(value)) if is_float else int(value)
    if plan.launcher is not None:
        _start(plan, plan.launcher, services, words)
    elif ready.kernel is not None:
        _call(plan, ready.kernel, services, words)
    plan.calls.value += 1
    if plan.launcher is not None and plan.launcher.checked:
        services.wait(plan)


def _keep_apart(plan: Plan, services: Services, pointers: Mapping[str, int]) -> None:
    for place, pair in enumerate(plan.pairs):
        apart = pointers[pair.other] - pointers[pair.written]
        if -pair.second.span < apart < pair.first.span:
            services.overlap(plan, place, apart)


def _call(plan: Plan, kernel: Callable[[Any], int], services: Services, words: list[int]) -> None:
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
        services.fail(plan, status, *error)


def _start(plan: Plan, launcher: gpu.Launcher, services: Services, words: list[int]) -> None:
    told = gpu.misplaced(launcher, words)
    if told is not None:
        services.fail(plan, told[0], *told)
    stream = services.stream(launcher.device)
    if plan.workspace_size:
        _place_workspace(plan, words, services.workspace(plan.workspace_size, launcher.memory, stream))
    words[_ERROR] = launcher.error
    launcher.start((ctypes.c_int64 * len(words))(*words), stream)


def _place_workspace(plan: Plan, words: list[int], base: int) -> None:
    for place, offset in plan.workspace.items():
        words[place] = base + offset
