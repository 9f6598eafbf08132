"""Launching: the compiled binding where there is one, ctypes (`plain`) where not; both behave alike.

A caller takes (*tensors, *scalars, *keywords) in the order of its `Signature` and answers True
when the call is done, or False when its tensors are not plain ones (subclasses, an active
dispatch mode) and the call must go through torch's dispatcher.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

from kgen.dispatch import cuda, gpu, threads
from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.overlap import Region
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
    `environment` the variables. `extents`: tensor -> what its first axis counts, where ranges hold that."""

    op: str
    tensors: tuple[str, ...]
    scalars: Mapping[str, bool]
    keywords: tuple[str, ...]
    steering: frozenset[str]
    environment: tuple[str, ...]
    extents: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> tuple[str, ...]:
        """What plans may have ranges for: scalars, then extents."""
        return (*self.scalars, *dict.fromkeys(self.extents.values()))


@dataclass(frozen=True)
class Services:
    """What a caller asks of its dispatcher. `workspace` takes bytes, and on a GPU the device and the
    stream; `stream` a device. `fail` takes a plan, the call's `Signature.values` and what a kernel reported;
    `overlap`, behind these two, the place of one of a plan's pairs whose ranges of bytes meet, and how many
    bytes lie between their starts. `fail`, `refuse` (what a driver answered in place of a launch) and `wait`
    (for a launch that is to be checked at once) raise, `overlap` where it finds cause."""

    make_plan: Callable[..., Plan]
    fail: Callable[[Plan, tuple[int, ...], int, int, int, int, int], None]
    overlap: Callable[[Plan, tuple[int, ...], int, int], None]
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
        "extents": _extent_places(signature),
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
        for at, name in enumerate(signature.values)
        if plan.ranges.get(name, EVERY) != EVERY
    ]
    words = with_threads(plan)
    return binding.plan(
        {
            "address": plan.address,
            "figures": [*words, plan.workspace_size, *plan.workspace.values(), *_spans(plan), *_blocks(plan)],
            "block_words": len(words),
            "tensor_places": [plan.pointers.get(name, -1) for name in signature.tensors],
            "scalar_places": [plan.scalars.get(name, -1) for name in signature.scalars],
            "workspace_places": list(plan.workspace),
            "threads": plan.threads,
            "calls": ctypes.addressof(plan.calls),
            "ranges": ranges,
            "moves": _compiled_moves(plan, signature.values),
            "pairs": [(place[pair.written], place[pair.other]) for pair in plan.pairs],
            "record": plan,
            "gpu": None if plan.launcher is None else _compiled_launcher(plan.launcher, signature.values),
        }
    )


def _extent_places(signature: Signature) -> list[int]:
    """Of each tensor, the place among the values of what its first axis counts; -1 where plans are told apart
    by it."""
    place = {name: at for at, name in enumerate(signature.values)}
    return [place[signature.extents[name]] if name in signature.extents else -1 for name in signature.tensors]


def _regions(plan: Plan) -> list[Region]:
    return [region for pair in plan.pairs for region in (pair.first, pair.second)]


def _spans(plan: Plan) -> list[int]:
    """Bytes from the first to the last of both tensors of each pair."""
    return [region.span for region in _regions(plan)]


def _blocks(plan: Plan) -> list[int]:
    """The grids of all kernels, one behind another."""
    return [] if plan.launcher is None else [size for step in plan.launcher.steps for size in step.grid]


def _compiled_moves(plan: Plan, values: Sequence[str]) -> list[tuple[object, ...]]:
    """Figures that move, by their places among those of the binding: the words of the block, bytes of
    workspace, offsets in it, spans of pairs, and grids."""
    moves, size = plan.moves, len(plan.words)
    offsets = {at: size + 1 + i for i, at in enumerate(plan.workspace)}
    first_span = size + 1 + len(offsets)
    first_grid = first_span + 2 * len(plan.pairs)
    found = {
        **moves.words,
        **({} if moves.size is None else {size: moves.size}),
        **{offsets[at]: path for at, path in moves.offsets.items()},
        **{first_span + i: region.path for i, region in enumerate(_regions(plan)) if region.path},
        **{first_grid + 3 * kernel + axis: path for (kernel, axis), path in moves.grids.items()},
    }
    return [
        (
            *(place, values.index(path.of), path.factor, path.offset),
            [(bend.factor, bend.offset, bend.kind, bend.by) for bend in path.bends],
        )
        for place, path in found.items()
    ]


def _compiled_launcher(launcher: gpu.Launcher, values: Sequence[str]) -> dict[str, Any]:
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
            (step.kernel.function, step.block, step.dynamic_lds, [_map(each, values) for each in step.maps])
            for step in launcher.steps
        ],
        "encode": driver.address(cuda.ENCODE) if any(step.maps for step in launcher.steps) else 0,
    }


def _map(each: TensorMap, values: Sequence[str]) -> tuple[object, ...]:
    """What cuTensorMapEncodeTiled takes, but for where the map and the tensor are; behind it the place of its
    rows among the values, -1 where they are always as many."""
    element = cuda.ELEMENTS.get(each.element_bytes, 0)
    rows = values.index(each.rows) if each.rows else -1
    return each.place, element, list(each.sizes), list(each.strides), list(each.box), list(cuda.HOW), rows


def with_threads(plan: Plan) -> tuple[int, ...]:
    """The words of a plan; of a CPU kernel with the addresses of the thread runtime."""
    if not plan.address:
        return plan.words
    words = list(plan.words)
    words[_PARALLEL], words[_THREAD_NUM] = threads.runtime().parallel, threads.runtime().thread_num
    return tuple(words)
