"""NVIDIA kernels through the CUDA driver API, in the primary contexts that torch uses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from kgen.dispatch.driver import HANDLE, LAUNCH, OUT_HANDLE, Driver

_STATIC_LIMIT = 48 * 1024
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # a CUfunction_attribute


class Cuda(Driver):
    """libcuda, initialised."""

    NAME = "CUDA"
    LIBRARY = "libcuda.so.1"
    LOAD, FUNCTION, START = "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"
    CALLS: ClassVar[Mapping[str, Sequence[Any]]] = {
        "cuInit": (ctypes.c_uint,),
        "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
        "cuDevicePrimaryCtxRetain": (OUT_HANDLE, ctypes.c_int),
        "cuCtxPushCurrent_v2": (HANDLE,),
        "cuCtxPopCurrent_v2": (OUT_HANDLE,),
        "cuModuleLoadData": (OUT_HANDLE, ctypes.c_char_p),
        "cuModuleGetFunction": (OUT_HANDLE, HANDLE, ctypes.c_char_p),
        "cuFuncSetAttribute": (HANDLE, ctypes.c_int, ctypes.c_int),
        "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
        "cuLaunchKernel": LAUNCH,
    }

    def __init__(self) -> None:
        super().__init__()
        self.call("cuInit", 0)
        self._contexts: dict[int, _Current] = {}

    def error_name(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._calls["cuGetErrorName"](status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"

    def on(self, device: int) -> AbstractContextManager[object]:
        found = self._contexts.get(device)
        if found is None:
            found = self._contexts[device] = _Current(self, self._primary(device))
        return found

    def allow_dynamic(self, function: int, size: int) -> None:
        if size > _STATIC_LIMIT:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, size)

    def _primary(self, device: int) -> int:
        ordinal, context = ctypes.c_int(), HANDLE()
        self.call("cuDeviceGet", ctypes.byref(ordinal), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        return context.value or 0


class _Current:
    """A context that is current inside `with`; reused, since every call enters it."""

    def __init__(self, driver: Cuda, handle: int) -> None:
        self._driver, self._handle, self._popped = driver, handle, ctypes.byref(HANDLE())

    def __enter__(self) -> None:
        self._driver.call("cuCtxPushCurrent_v2", self._handle)

    def __exit__(self, *_: object) -> None:
        self._driver.call("cuCtxPopCurrent_v2", self._popped)


@functools.cache
def driver() -> Driver:
    """The CUDA driver of this machine. Raises KgenError (K526) where there is none."""
    return Cuda()
