"""NVIDIA kernels through the driver API: cubins in, launches out. Knows nothing of operators or plans.

The driver is found with dlopen when it is first asked for, so that one package serves machines
with and without a GPU. A module is loaded once per device, in the primary context that torch uses.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass

from kgen.dispatch.errors import fault

LIBRARY = "libcuda.so.1"
MAX_GRID = (2**31 - 1, 65535, 65535)
_STATIC_LIMIT = 48 * 1024
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # a CUfunction_attribute
_HANDLE = ctypes.c_void_p
_CALLS = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_HANDLE), ctypes.c_int),
    "cuCtxPushCurrent_v2": (_HANDLE,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(_HANDLE),),
    "cuModuleLoadData": (ctypes.POINTER(_HANDLE), ctypes.c_char_p),
    "cuModuleGetFunction": (ctypes.POINTER(_HANDLE), _HANDLE, ctypes.c_char_p),
    "cuFuncSetAttribute": (_HANDLE, ctypes.c_int, ctypes.c_int),
    "cuLaunchKernel": (
        *(_HANDLE, *(ctypes.c_uint,) * 7, _HANDLE),
        *(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p),
    ),
}


class Driver:
    """The driver's entry points; every refusal is a KgenError (K526)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._calls: dict[str, Callable[..., int]] = {}
        for name, arguments in _CALLS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = list(arguments), ctypes.c_int
            self._calls[name] = function
        self._name = library.cuGetErrorName
        self._name.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]

    def call(self, name: str, *arguments: object) -> None:
        """Call an entry point by name."""
        status = self._calls[name](*arguments)
        if status != 0:
            raise fault("K526", f"the CUDA driver refused {name}: {self.error_name(status)}")

    def error_name(self, status: int) -> str:
        """The driver's name of a status."""
        text = ctypes.c_char_p()
        self._name(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"


@functools.cache
def driver() -> Driver:
    """The driver of this machine. Raises KgenError (K526) where there is none."""
    try:
        found = Driver(ctypes.CDLL(LIBRARY))
    except (OSError, AttributeError) as error:
        hint = "install an NVIDIA driver, or run on CPU tensors"
        raise fault("K526", f"no CUDA driver: {error}", hint) from error
    found.call("cuInit", 0)
    return found


class Context:
    """The primary context of one device, current inside `with`."""

    def __init__(self, device: int) -> None:
        self._driver = driver()
        ordinal = ctypes.c_int()
        self._driver.call("cuDeviceGet", ctypes.byref(ordinal), device)
        self._handle = _HANDLE()
        self._driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._handle), ordinal)

    def __enter__(self) -> Context:
        self._driver.call("cuCtxPushCurrent_v2", self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuCtxPopCurrent_v2", ctypes.byref(_HANDLE()))


@functools.cache
def context(device: int) -> Context:
    """The context of a device, by its index."""
    return Context(device)


@dataclass(frozen=True)
class Kernel:
    """A function loaded on one device. `module` keeps it there."""

    device: int
    function: int
    module: Module


class Module:
    """A cubin loaded on one device, for as long as the process lives."""

    def __init__(self, image: bytes, device: int) -> None:
        self.device = device
        self._handle = _HANDLE()
        with context(device):
            driver().call("cuModuleLoadData", ctypes.byref(self._handle), image)

    def kernel(self, symbol: str, dynamic_lds: int = 0) -> Kernel:
        """A function of the module. Raises KgenError (K526) where it has none of that name."""
        function = _HANDLE()
        with context(self.device):
            driver().call("cuModuleGetFunction", ctypes.byref(function), self._handle, symbol.encode())
            if dynamic_lds > _STATIC_LIMIT:
                driver().call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_lds)
        return Kernel(self.device, function.value or 0, self)


_modules: dict[tuple[bytes, int], Module] = {}
_lock = threading.Lock()


def load(image: bytes, symbol: str, device: int, dynamic_lds: int = 0) -> Kernel:
    """The kernel `symbol` of a cubin on a device; the module is loaded at most once."""
    with _lock:
        module = _modules.get((image, device))
        if module is None:
            module = _modules[image, device] = Module(image, device)
    return module.kernel(symbol, dynamic_lds)


def launch(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: int,
    dynamic_lds: int,
    words: ctypes.Array[ctypes.c_int64],
    stream: int,
) -> None:
    """Start a kernel on a stream; `words`, its one parameter, is copied before this returns.

    Nothing waits. A grid without blocks is no launch. Raises KgenError (K526).
    """
    if 0 in grid:
        return
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(words))
    with context(kernel.device):
        driver().call(
            "cuLaunchKernel", kernel.function, *grid, block, 1, 1, dynamic_lds, stream, parameters, None
        )
