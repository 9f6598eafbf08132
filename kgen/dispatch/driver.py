"""What the drivers of NVIDIA and AMD have in common: images in, launches out.

Knows nothing of operators or plans. A driver is found with dlopen when it is first asked for, so
that one package serves machines with and without a GPU. A module is loaded once per device.
"""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from kgen.diagnostics import KgenError
from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.errors import fault

HANDLE = ctypes.c_void_p
OUT_HANDLE = ctypes.POINTER(HANDLE)
LAUNCH = (HANDLE, *(ctypes.c_uint,) * 7, HANDLE, ctypes.POINTER(HANDLE), HANDLE)
"""Arguments of a launch: function, grid, block, dynamic LDS, stream, parameters, extra."""
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """A function loaded on one device. `module` is the handle of what it lies in."""

    device: int
    function: int
    module: int


class Driver(ABC):
    """A driver's entry points. Every refusal of one is a KgenError (K526).

    A thread works in one place at a time: a context on CUDA, a device on HIP. `GET` reads it into
    a `PLACE`, `SET` takes one.
    """

    NAME: ClassVar[str]
    LIBRARY: ClassVar[str]
    CALLS: ClassVar[Mapping[str, Sequence[Any]]]
    """Entry points and the types of their arguments."""
    LOAD: ClassVar[str]
    FUNCTION: ClassVar[str]
    START: ClassVar[str]
    GET: ClassVar[str]
    SET: ClassVar[str]
    PLACE: ClassVar[type[ctypes.c_int] | type[ctypes.c_void_p]]
    MAX_GRID: ClassVar[Grid] = (2**31 - 1, 65535, 65535)

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL(self.LIBRARY)
            self._calls = {name: self._entry(name, arguments) for name, arguments in self.CALLS.items()}
        except (OSError, AttributeError) as error:
            hint = "install the driver of the GPU, or run on CPU tensors"
            raise fault("K526", f"no {self.NAME} driver: {error}", hint) from error
        self._modules: dict[tuple[bytes, int], int] = {}
        self._lock = threading.Lock()

    def _entry(self, name: str, arguments: Sequence[Any]) -> Callable[..., int]:
        function = getattr(self.library, name)
        function.argtypes, function.restype = list(arguments), ctypes.c_int
        entry: Callable[..., int] = function
        return entry

    def call(self, name: str, *arguments: object) -> None:
        """Call an entry point by name."""
        status = self._calls[name](*arguments)
        if status != 0:
            raise self.refusal(name, status)

    def address(self, name: str) -> int:
        """Where an entry point is, for code that calls it without Python."""
        return ctypes.cast(self._calls[name], HANDLE).value or 0  # type: ignore[arg-type]

    def refusal(self, name: str, status: int) -> KgenError:
        """What a status other than 0 of an entry point means (K526)."""
        return fault("K526", f"the {self.NAME} driver refused {name}: {self.error_name(status)}")

    @abstractmethod
    def error_name(self, status: int) -> str:
        """The driver's name of a status."""

    @abstractmethod
    def place(self, device: int) -> int:
        """What `SET` takes to make a device current."""

    @abstractmethod
    def allow_dynamic(self, function: int, size: int) -> None:
        """Ask for so many bytes of dynamic LDS, where that needs asking."""

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Make a device current inside `with`; nothing is asked for where it is already."""
        wanted, before = self.place(device), self.PLACE()
        self.call(self.GET, ctypes.byref(before))
        if (before.value or 0) == wanted:
            yield
            return
        self.call(self.SET, wanted)
        try:
            yield
        finally:
            self.call(self.SET, before)

    def load(self, image: bytes, symbol: str, device: int, dynamic_lds: int = 0) -> Kernel:
        """The kernel `symbol` of an image on a device."""
        with self._lock, self.on(device):
            module = self._modules.get((image, device))
            if module is None:
                module = self._modules[image, device] = self._load(image)
            function = HANDLE()
            self.call(self.FUNCTION, ctypes.byref(function), module, symbol.encode())
            self.allow_dynamic(function.value or 0, dynamic_lds)
        return Kernel(device, function.value or 0, module)

    def _load(self, image: bytes) -> int:
        module = HANDLE()
        self.call(self.LOAD, ctypes.byref(module), image)
        return module.value or 0

    def encode(self, each: TensorMap, words: ctypes.Array[ctypes.c_int64]) -> ctypes.Array[Any]:
        """A tensor as the copy engine of the device wants it described: a parameter of a kernel."""
        raise fault("K526", f"the {self.NAME} driver knows no tensor maps, which place {each.place} needs")

    def launch(
        self,
        kernel: Kernel,
        grid: Grid,
        block: int,
        dynamic_lds: int,
        words: ctypes.Array[ctypes.c_int64],
        stream: int,
        maps: Sequence[ctypes.Array[Any]] = (),
    ) -> None:
        """Start a kernel on a stream of its device, which is current; its parameters, `words` and `maps`,
        are copied before this returns.

        Nothing waits. A grid without blocks is no launch.
        """
        if 0 in grid:
            return
        parameters = (HANDLE * (1 + len(maps)))(ctypes.addressof(words), *map(ctypes.addressof, maps))
        self.call(self.START, kernel.function, *grid, block, 1, 1, dynamic_lds, stream, parameters, None)
