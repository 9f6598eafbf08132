"""Plans on a GPU: what stands in for the address of a CPU kernel.

A `Launcher` is called with an argument block like a CPU kernel, puts the workspace and the error
word of its device into it, and starts the kernels of its plan on torch's current stream. It never
waits, unless KGEN_CHECK=1 asks for every call's error word.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kgen import env
from kgen.dispatch import cuda, hip
from kgen.dispatch.driver import Driver, Grid, Kernel
from kgen.dispatch.errors import fault
from kgen.dispatch.model import Built, Names
from kgen.dispatch.workspace import Workspaces
from kgen.manifest import ERRORS, HEADER, ArgumentRule, Launch, Policy
from kgen.semantics import DTYPES, evaluate

ALIGNMENT = 16
"""Bytes a GPU kernel reads at once from a row of elements."""
RAISED = -1
"""What a launcher answers when it keeps an exception for its caller."""
_ERROR = HEADER.index("error")
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True)
class Step:
    """One kernel of a plan, ready to start."""

    kernel: Kernel
    grid: Grid
    block: int
    dynamic_lds: int


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


def stream_of(device: int) -> int:
    """The handle of torch's current stream."""
    stream: int = torch._C._cuda_getCurrentRawStream(device)
    return stream


def driver() -> Driver:
    """The driver torch's GPUs need. Raises KgenError (K526) where it is not installed."""
    return hip.driver() if torch.version.hip else cuda.driver()


def steps(built: Built, image: bytes, names: Names, device: int) -> tuple[Step, ...]:
    """The kernels of an entry with their grids for these facts."""
    found = []
    launch: Launch | None = built.entry.launch
    while launch is not None:
        symbol = launch.symbol or built.entry.symbol
        kernel = driver().load(image, symbol, device, launch.dynamic_lds)
        grid = _grid(built.entry.name, launch, names)
        found.append(Step(kernel, grid, launch.block, launch.dynamic_lds))
        launch = launch.then
    return tuple(found)


def _grid(name: str, launch: Launch, names: Names) -> Grid:
    x, y, z = (int(evaluate(code, names)) for code in launch.grid)
    for size, limit, axis in zip((x, y, z), Driver.MAX_GRID, "xyz", strict=True):
        if size > limit:
            raise fault("K517", f"{name} needs {size} blocks along {axis}; the device allows {limit}")
    return x, y, z


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


@dataclass
class Launcher:
    """Runs the kernels of one plan. `address` is what a caller calls."""

    policy: Policy
    device: int
    steps: tuple[Step, ...]
    workspaces: Workspaces
    errors: ErrorWords
    workspace_size: int
    workspace_places: tuple[tuple[int, int], ...]
    raised: Exception | None = None
    _entry: Any = field(init=False)  # a ctypes function

    def __post_init__(self) -> None:
        self._driver = driver()
        self._block_type = ctypes.c_int64 * len(self.policy.words)
        self._aligned = row_words(self.policy, "pointer")
        self._error = self.errors.address(self.policy.op, self.device)
        self._entry = _ENTRY(self._run)

    @property
    def address(self) -> int:
        """The address of a function `int (const int64_t*)`."""
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def _run(self, block: int) -> int:
        try:
            return self._launch(self._block_type.from_address(block))
        except Exception as error:  # none may leave a C callback; the caller raises it
            self.raised = error
            return RAISED

    def _launch(self, words: ctypes.Array[ctypes.c_int64]) -> int:
        for place in self._aligned:
            if words[place] % ALIGNMENT:
                return _report(words, ERRORS["alignment"], place, ALIGNMENT, words[place])
        host_error, words[_ERROR] = words[_ERROR], self._error
        stream = stream_of(self.device)
        if self.workspace_size:
            base = self.workspaces.address(self.workspace_size, f"cuda:{self.device}", stream)
            for place, offset in self.workspace_places:
                words[place] = base + offset
        with self._driver.on(self.device):
            for step in self.steps:
                self._driver.launch(step.kernel, step.grid, step.block, step.dynamic_lds, words, stream)
        if not env.check() or torch.cuda.is_current_stream_capturing():
            return 0
        words[_ERROR] = host_error
        return _report(words, *self.errors.take(self.policy.op, self.device))


def _report(words: ctypes.Array[ctypes.c_int64], *told: int) -> int:
    """Answer with an error in the host's error word."""
    ctypes.memmove(words[_ERROR], (ctypes.c_int64 * 4)(*told), 32)
    return told[0]
