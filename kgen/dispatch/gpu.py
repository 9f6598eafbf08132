"""Plans on a GPU: what stands in for the address of a CPU kernel.

A `Launcher` names the kernels of a plan with their grids. Whoever calls (the compiled binding, or
`plain.run_plan`) fills in the workspace and the error word of the device, and starts them on torch's
current stream. Nothing waits, unless KGEN_CHECK=1 asks for every call's error word.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kgen.diagnostics import KgenError
from kgen.dispatch import cuda, hip
from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.driver import Driver, Grid, Kernel
from kgen.dispatch.errors import fault
from kgen.dispatch.intervals import Tracked
from kgen.dispatch.model import Bound, Built, Names, View
from kgen.dispatch.paths import FAR
from kgen.dispatch.tracking import Tracker
from kgen.manifest import ERRORS, ArgumentRule, Box, Launch, Policy
from kgen.semantics import DTYPES

ALIGNMENT = 16
"""Bytes a GPU kernel reads at once from a row of elements."""
WINDOW = 2**28
"""Elements a window on memory may span (kOutside of the dialect)."""

APART = 2**30
"""Elements that pages lie apart, at most: of two bytes each, 32 bits count their bytes."""


@dataclass(frozen=True)
class Step:
    """One kernel of a plan, ready to start. `maps` are its parameters behind the argument block."""

    kernel: Kernel
    grid: Grid
    block: int
    dynamic_lds: int
    maps: tuple[TensorMap, ...] = ()


def is_gpu(device: str) -> bool:
    """Whether tensors on this device are for a `Launcher`. torch calls AMD's devices `cuda` too."""
    return device.startswith("cuda")


def arch_of(device: str) -> str:
    """The target a GPU is: `sm_90`, `gfx942`, `gfx936`."""
    if torch.version.hip:
        name: str = torch.cuda.get_device_properties(device).gcnArchName
        return name.partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def stream_lookup() -> Callable[[int], int]:
    """What gives the handle of torch's current stream on a device: torch's own function, which is ten
    times as fast as `torch.cuda.current_stream`. A torch without GPUs has none and no use for it."""
    lookup: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _default_stream)
    return lookup


def _default_stream(_device: int) -> int:
    return 0


def driver() -> Driver:
    """The driver torch's GPUs need. Raises KgenError (K526) where it is not installed."""
    return hip.driver() if torch.version.hip else cuda.driver()


def steps(
    built: Built,
    image: bytes,
    grids: Sequence[Sequence[Tracked]],
    device: int,
    map_of: Callable[[Box], TensorMap],
) -> tuple[Step, ...]:
    """The kernels of an entry, with their grids."""
    found = []
    for launch, (x, y, z) in zip(_launches(built), grids, strict=True):
        symbol = launch.symbol or built.entry.symbol
        kernel = driver().load(image, symbol, device, launch.dynamic_lds)
        maps = tuple(map_of(box) for box in launch.boxes)
        found.append(Step(kernel, (x.value, y.value, z.value), launch.block, launch.dynamic_lds, maps))
    return tuple(found)


def grids(built: Built, tracker: Tracker) -> tuple[tuple[Tracked, ...], ...]:
    """Blocks along x, y and z of each kernel of an entry. Raises KgenError (K517) for too many."""
    return tuple(_grid(built.entry.name, launch, tracker) for launch in _launches(built))


def _launches(built: Built) -> Iterator[Launch]:
    launch = built.entry.launch
    while launch is not None:
        yield launch
        launch = launch.then


def _grid(name: str, launch: Launch, tracker: Tracker) -> tuple[Tracked, ...]:
    found = tuple(tracker.follow(code) for code in launch.grid)
    for size, limit, axis in zip(found, Driver.MAX_GRID, "xyz", strict=True):
        if size.value > limit:
            raise fault("K517", f"{name} needs {size.value} blocks along {axis}; the device allows {limit}")
        tracker.within(size, -FAR, limit)
    return found


def row_words(policy: Policy, kind: str) -> tuple[int, ...]:
    """Places of the `pointer` or `stride` words of tensors with rows of elements: caches, and
    what has an axis `dim`. Kernels read those rows 16 bytes at a time."""
    rules = {rule.name for rule in policy.arguments if _has_rows(rule) and not rule.workspace}
    return tuple(i for i, w in enumerate(policy.words) if w.kind == kind and w.argument in rules)


def _has_rows(rule: ArgumentRule) -> bool:
    return rule.kind == "cache" or bool(rule.axes and rule.axes[-1].name == "dim")


def check_strides(policy: Policy, names: Names, words: Sequence[int]) -> None:
    """Refuse strides that would take a row of elements off its 16 bytes (K518)."""
    dtypes = {rule.name: str(names.get(rule.dtype, rule.dtype)) for rule in policy.arguments}
    for place in row_words(policy, "stride"):
        word, stride = policy.words[place], words[place]
        if stride != 1 and stride * DTYPES[dtypes[word.argument]] % ALIGNMENT:
            message = f"{policy.op}: {word.argument} has a stride of {stride} elements along {word.axis}"
            hint = f"on a GPU rows start on multiples of {ALIGNMENT} bytes: pad it or make it contiguous"
            raise fault("K518", message, hint)


def check_windows(policy: Policy, bound: Bound, tensors: Mapping[str, View | None], *, stepped: bool) -> None:
    """Refuse caches that are read of which one page of a head is farther spread than a window or, where
    windows are `stepped` from page to page, whose pages lie too far apart (K518)."""
    for rule in policy.arguments:
        view = tensors.get(rule.name)
        if rule.kind != "cache" or rule.access != "read" or view is None:
            continue
        strides = bound.strides[rule.name]
        extents = dict(zip(strides, view.shape, strict=True))
        span = 1 + sum((extents[a] - 1) * strides[a] for a in strides if a not in ("block", "head"))
        if span > WINDOW:
            message = f"{policy.op}: one page of a head of {rule.name} spans {span} elements"
            raise fault("K518", message, f"GPU kernels read pages of at most {WINDOW}: make it contiguous")
        if stepped and extents["block"] > 1 and strides["block"] >= APART:
            message = f"{policy.op}: pages of {rule.name} lie {strides['block']} elements apart"
            raise fault("K518", message, f"GPU kernels step by less than {APART}: make it contiguous")


class ErrorWords:
    """The sticky error words: four int64 in device memory for each operator and device."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, int], torch.Tensor] = {}

    def address(self, op: str, device: int) -> int:
        """Where kernels of `op` on the device report."""
        key = (op, device)
        if key not in self._words:
            self._words[key] = torch.zeros(4, dtype=torch.int64, device=f"cuda:{device}")
        return self._words[key].data_ptr()

    def take(self, op: str, device: int) -> tuple[int, int, int, int]:
        """Read one and clear it; waits for the device."""
        words = self._words[op, device]
        code, row, index, value = words.tolist()
        if code:
            words.zero_()
        return code, row, index, value

    def places(self) -> Sequence[tuple[str, int]]:
        """Every operator and device that has launched."""
        return tuple(self._words)


@dataclass(frozen=True)
class Launcher:
    """The kernels of one plan and what their start needs. `aligned`: places of pointers to rows of
    elements; `error`: the address of the device's error word; `checked`: whether each call waits."""

    driver: Driver
    device: int
    steps: tuple[Step, ...]
    aligned: tuple[int, ...]
    error: int
    checked: bool

    @property
    def memory(self) -> str:
        """The device as torch names it."""
        return f"cuda:{self.device}"

    def at(self, blocks: Mapping[tuple[int, int], int], values: Mapping[str, int]) -> Launcher:
        """The launcher of a call with other values; `blocks` by (kernel, axis)."""
        kernels = []
        for at, step in enumerate(self.steps):
            x, y, z = (blocks.get((at, axis), size) for axis, size in enumerate(step.grid))
            maps = tuple(each.at(values) for each in step.maps)
            kernels.append(replace(step, grid=(x, y, z), maps=maps))
        return replace(self, steps=tuple(kernels))

    def start(self, words: ctypes.Array[ctypes.c_int64], stream: int) -> None:
        """Start every kernel on a stream of the device; waits for nothing."""
        with self.driver.on(self.device):
            for step in self.steps:
                maps = [self.driver.encode(each, words) for each in step.maps]
                self.driver.launch(step.kernel, step.grid, step.block, step.dynamic_lds, words, stream, maps)

    def refusal(self, status: int) -> KgenError:
        """What a status other than 0 of the compiled binding means (K526)."""
        return self.driver.refusal(cuda.ENCODE if status < 0 else self.driver.START, abs(status))


def misplaced(launcher: Launcher, words: Sequence[int]) -> tuple[int, int, int, int] | None:
    """What a call is answered whose rows do not start on their 16 bytes (code, row, index, value)."""
    for place in launcher.aligned:
        if words[place] % ALIGNMENT:
            return ERRORS["alignment"], place, ALIGNMENT, words[place]
    return None
