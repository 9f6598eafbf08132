"""Launching: the compiled binding where there is one, ctypes (`plain`) where not; both behave alike.

A caller takes (*tensors, *scalars, *keywords) in the order of its `Signature` and answers True
when the call is done, or False when its tensors are not plain ones (subclasses, an active
dispatch mode) and the call must go through torch's dispatcher.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

from kgen.dispatch import cuda, gpu, threads
from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.plan import Plan
from kgen.manifest import ERRORS, HEADER
from kgen.semantics import INT_MAX, INT_MIN

MODULE = "kgen_binding"
MAX_PLANS = 1024
EVERY = (INT_MIN, INT_MAX)
TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
_PARALLEL, _THREAD_NUM = HEADER.index("parallel"), HEADER.index("thread_num")


@dataclass(frozen=True)
class Signature:
    """The positional arguments of a caller. `scalars` maps a name to whether it is a float;
    `steering` names those that expressions of the policy use, of which a plan's ranges hold the ints;
    `environment` the variables."""

    op: str
    tensors: tuple[str, ...]
    scalars: Mapping[str, bool]
    keywords: tuple[str, ...]
    steering: frozenset[str]
    environment: tuple[str, ...]


@dataclass(frozen=True)
class Services:
    """What a caller asks of its dispatcher. `workspace` takes bytes, and on a GPU the device and the
    stream; `stream` a device. `overlap` takes the place of one of a plan's pairs whose ranges of bytes meet,
    and how many bytes lie between their starts. `fail`, `refuse` (what a driver answered in place of a
    launch) and `wait` (for a launch that is to be checked at once) raise, `overlap` where it finds cause."""

    make_plan: Callable[..., Plan]
    fail: Callable[[Plan, int, int, int, int, int], None]
    overlap: Callable[[Plan, int, int], None]
    workspace: Callable[..., int]
    stream: Callable[[int], int]
    refuse: Callable[[Plan, int], None]
    wait: Callable[[Plan], None]


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


def in_key(signature: Signature) -> tuple[bool, ...]:
    """Which scalars are part of a plan's key: those that steer it and have no ranges."""
    return tuple(is_float and name in signature.steering for name, is_float in signature.scalars.items())


def exchange_table() -> object:
    """Torch's DLPack exchange table; None in a torch that has none."""
    return getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def compiled_caller(binding: ModuleType, signature: Signature, services: Services) -> Any:
    """A caller of the compiled binding: a built-in function."""

    def make_plan(*arguments: Any) -> Any:
        return _compiled_plan(binding, signature, services.make_plan(*arguments))

    caller = {
        "tensors": len(signature.tensors),
        "scalars": list(zip(signature.scalars.values(), in_key(signature), strict=True)),
        "keywords": len(signature.keywords),
        "environment": signature.environment,
        "tensor_types": TENSOR_TYPES,
        "exchange": exchange_table(),
        "make_plan": make_plan,
        "fail": services.fail,
        "overlap": services.overlap,
        "workspace": services.workspace,
        "stream": services.stream,
        "refuse": services.refuse,
        "wait": services.wait,
        "num_threads": torch.get_num_threads,
        "dispatch_depth": torch._C._len_torch_dispatch_stack,
    }
    return binding.caller(caller)


def _compiled_plan(binding: ModuleType, signature: Signature, plan: Plan) -> Any:
    place = {name: at for at, name in enumerate(signature.tensors)}
    ranges = [
        (at, *plan.ranges[name])
        for at, name in enumerate(signature.scalars)
        if plan.ranges.get(name, EVERY) != EVERY
    ]
    pairs = [(place[p.written], place[p.other], p.first.span, p.second.span) for p in plan.pairs]
    words = with_threads(plan)
    return binding.plan(
        {
            "address": plan.address,
            "figures": [*words, plan.workspace_size, *plan.workspace.values(), *_blocks(plan)],
            "block_words": len(words),
            "tensor_places": [plan.pointers.get(name, -1) for name in signature.tensors],
            "scalar_places": [plan.scalars.get(name, -1) for name in signature.scalars],
            "workspace_places": list(plan.workspace),
            "threads": plan.threads,
            "calls": ctypes.addressof(plan.calls),
            "ranges": ranges,
            "moves": _compiled_moves(plan, list(signature.scalars)),
            "pairs": pairs,
            "record": plan,
            "gpu": None if plan.launcher is None else _compiled_launcher(plan.launcher),
        }
    )


def _blocks(plan: Plan) -> list[int]:
    """The grids of all kernels, one behind another."""
    return [] if plan.launcher is None else [size for step in plan.launcher.steps for size in step.grid]


def _compiled_moves(plan: Plan, scalars: list[str]) -> list[tuple[object, ...]]:
    """Figures that follow from a scalar: their places in what the binding has for words, which are the words
    of the block, bytes of workspace, offsets in it, and grids."""
    moves, size = plan.moves, len(plan.words)
    offsets = {at: size + 1 + i for i, at in enumerate(plan.workspace)}
    first_grid = size + 1 + len(offsets)
    found = {
        **moves.words,
        **({} if moves.size is None else {size: moves.size}),
        **{offsets[at]: path for at, path in moves.offsets.items()},
        **{first_grid + 3 * kernel + axis: path for (kernel, axis), path in moves.grids.items()},
    }
    return [
        (
            *(place, scalars.index(path.of), path.factor, path.offset),
            [(bend.factor, bend.offset, bend.kind, bend.by) for bend in path.bends],
        )
        for place, path in found.items()
    ]


def _compiled_launcher(launcher: gpu.Launcher) -> dict[str, Any]:
    driver = launcher.driver
    return {
        "start": driver.address(driver.START),
        "get": driver.address(driver.GET),
        "set": driver.address(driver.SET),
        "by_number": driver.PLACE is ctypes.c_int,
        "place": driver.place(launcher.device),
        "device": launcher.device,
        "memory": launcher.memory,
        "error": launcher.error,
        "aligned": launcher.aligned,
        "alignment": gpu.ALIGNMENT,
        "misaligned": ERRORS["alignment"],
        "checked": launcher.checked,
        "steps": [
            (step.kernel.function, step.block, step.dynamic_lds, list(map(_map, step.maps)))
            for step in launcher.steps
        ],
        "encode": driver.address(cuda.ENCODE) if any(step.maps for step in launcher.steps) else 0,
    }


def _map(each: TensorMap) -> tuple[object, ...]:
    """What cuTensorMapEncodeTiled takes, but for where the map and the tensor are."""
    element = cuda.ELEMENTS.get(each.element_bytes, 0)
    return each.place, element, list(each.sizes), list(each.strides), list(each.box), list(cuda.HOW)


def with_threads(plan: Plan) -> tuple[int, ...]:
    """The words of a plan; of a CPU kernel with the addresses of the thread runtime."""
    if not plan.address:
        return plan.words
    words = list(plan.words)
    words[_PARALLEL], words[_THREAD_NUM] = threads.runtime().parallel, threads.runtime().thread_num
    return tuple(words)
