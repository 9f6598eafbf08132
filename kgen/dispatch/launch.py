"""Launching: the compiled binding where there is one, ctypes where not; both behave alike.

A caller takes (*tensors, *scalars, *keywords) in the order of its `Signature` and answers True
when the call is done, or False when its tensors are not plain ones (subclasses, an active
dispatch mode) and the call must go through torch's dispatcher.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

from kgen.dispatch import threads
from kgen.dispatch.plan import Plan, float_bits

MODULE = "kgen_binding"
MAX_PLANS = 1024
_STEERING = ("KGEN_LIBRARY", "KGEN_CACHE_DIR", "KGEN_ARCH", "KGEN_JIT", "KGEN_NUM_THREADS")
_ERROR, _PARALLEL, _THREAD_NUM, _THREADS = 2, 3, 4, 5  # places in manifest.HEADER
_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class Signature:
    """The positional arguments of a caller. `scalars` maps a name to whether it is a float;
    `steering` names those that expressions of the policy use; `environment` the variables."""

    op: str
    tensors: tuple[str, ...]
    scalars: Mapping[str, bool]
    keywords: tuple[str, ...]
    steering: frozenset[str]
    environment: tuple[str, ...]


@dataclass(frozen=True)
class Services:
    """What a caller asks of its dispatcher."""

    make_plan: Callable[..., Plan]
    fail: Callable[[Plan, int, int, int, int, int], None]
    workspace: Callable[[int], int]


class Caller(Protocol):
    """What launches the calls of one operator."""

    def __call__(self, *arguments: Any) -> bool:
        """Launch; True when done, False when torch's dispatcher must see the call."""


def load_binding(path: Path) -> ModuleType:
    """The compiled binding as a module. Raises ImportError where it does not fit this Python."""
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def exchange_table() -> object:
    """Torch's DLPack exchange table; None in a torch that has none."""
    return getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def compiled_caller(binding: ModuleType, signature: Signature, services: Services) -> Any:
    """A caller of the compiled binding: a built-in function."""

    def make_plan(*arguments: Any) -> Any:
        return _compiled_plan(binding, signature, services.make_plan(*arguments))

    caller = {
        "tensors": len(signature.tensors),
        "scalars": [(is_float, name in signature.steering) for name, is_float in signature.scalars.items()],
        "keywords": len(signature.keywords),
        "environment": signature.environment,
        "tensor_types": _TENSOR_TYPES,
        "exchange": exchange_table(),
        "make_plan": make_plan,
        "fail": services.fail,
        "workspace": services.workspace,
        "num_threads": torch.get_num_threads,
        "dispatch_depth": torch._C._len_torch_dispatch_stack,
    }
    return binding.caller(caller)


def _compiled_plan(binding: ModuleType, signature: Signature, plan: Plan) -> Any:
    return binding.plan(
        {
            "address": plan.address,
            "words": _with_threads(plan),
            "tensor_places": [plan.pointers.get(name, -1) for name in signature.tensors],
            "scalar_places": [plan.scalars.get(name, -1) for name in signature.scalars],
            "workspace_places": [place for place, _ in plan.workspace],
            "workspace_offsets": [offset for _, offset in plan.workspace],
            "workspace_size": plan.workspace_size,
            "threads": plan.threads,
            "calls": ctypes.addressof(plan.calls),
            "record": plan,
        }
    )


def _with_threads(plan: Plan) -> tuple[int, ...]:
    if not plan.words:
        return ()
    words = list(plan.words)
    words[_PARALLEL], words[_THREAD_NUM] = threads.runtime().parallel, threads.runtime().thread_num
    return tuple(words)


@dataclass(frozen=True)
class _Ready:
    """A plan as ctypes launches it."""

    plan: Plan
    kernel: Callable[[Any], int] | None
    words: tuple[int, ...]


class PlainCaller:
    """The caller in Python and ctypes."""

    def __init__(self, signature: Signature, services: Services) -> None:
        self._signature = signature
        self._services = services
        self._plans: dict[Any, _Ready] = {}
        self._environment = (*_STEERING, *signature.environment)
        self._tensors = len(signature.tensors)
        self._keywords = self._tensors + len(signature.scalars)

    def __call__(self, *arguments: Any) -> bool:
        tensors = arguments[: self._tensors]
        if torch._C._len_torch_dispatch_stack() or not all(map(_plain, tensors)):
            return False
        try:
            key = self._key(tensors, arguments)
            ready = self._plans.get(key)
            pointers = tuple(0 if tensor is None else tensor.data_ptr() for tensor in tensors)
        except (RuntimeError, TypeError):  # wrapped tensors without storage; keywords without a hash
            return False
        if ready is None:
            ready = self._make(key, arguments)
        scalars = arguments[self._tensors : self._keywords]
        run_plan(ready, self._signature, self._services, pointers, scalars)
        return True

    def _key(self, tensors: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """Everything a plan depends on; types too, since 1, 1.0 and True are equal."""
        scalars = zip(self._signature.scalars, arguments[self._tensors : self._keywords], strict=True)
        keywords = arguments[self._keywords :]
        return (
            tuple(map(os.environ.get, self._environment)),
            tuple(None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in tensors),
            tuple((type(v), v if name in self._signature.steering else None) for name, v in scalars),
            tuple((type(value), value) for value in keywords),
        )

    def _make(self, key: Any, arguments: tuple[Any, ...]) -> _Ready:
        plan = self._services.make_plan(*arguments)
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[key] = ready = ready_plan(plan)
        return ready


def _plain(tensor: object) -> bool:
    return tensor is None or type(tensor) in _TENSOR_TYPES


def ready_plan(plan: Plan) -> _Ready:
    """The plan with its kernel as a ctypes function and the thread runtime filled in."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    return _Ready(plan, prototype(plan.address) if plan.address else None, _with_threads(plan))


def run_plan(
    ready: _Ready,
    signature: Signature,
    services: Services,
    pointers: tuple[int, ...],
    scalars: tuple[Any, ...],
) -> None:
    """Fill in what changes from call to call and run the kernel; raises what it reports."""
    plan = ready.plan
    if ready.kernel is None:
        return
    words = list(ready.words)
    for name, pointer in zip(signature.tensors, pointers, strict=True):
        if name in plan.pointers:
            words[plan.pointers[name]] = pointer
    for (name, is_float), value in zip(signature.scalars.items(), scalars, strict=True):
        if value is not None and name in plan.scalars:
            words[plan.scalars[name]] = float_bits(float(value)) if is_float else int(value)
    if plan.workspace_size:
        base = services.workspace(plan.workspace_size)
        for place, offset in plan.workspace:
            words[place] = base + offset
    count = plan.threads or torch.get_num_threads()
    words[_THREADS] = max(count, 1)
    if count <= 1:
        words[_PARALLEL] = words[_THREAD_NUM] = 0
    error = (ctypes.c_int64 * 4)()
    words[_ERROR] = ctypes.addressof(error)
    status = ready.kernel((ctypes.c_int64 * len(words))(*words))
    if status:
        services.fail(plan, status, *error)
    plan.calls.value += 1
