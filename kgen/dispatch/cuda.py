"""NVIDIA kernels through the CUDA driver API, in the primary contexts that torch uses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kgen.dispatch.driver import HANDLE, LAUNCH, OUT_HANDLE, Driver

_STATIC_LIMIT = 48 * 1024
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # a CUfunction_attribute


class Cuda(Driver):
    """libcuda, initialised. A device is current through its primary context."""

    NAME = "CUDA"
    LIBRARY = "libcuda.so.1"
    LOAD, FUNCTION, START = "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"
    GET, SET, PLACE = "cuCtxGetCurrent", "cuCtxSetCurrent", HANDLE
    CALLS: ClassVar[Mapping[str, Sequence[Any]]] = {
        "cuInit": (ctypes.c_uint,),
        "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
        "cuDevicePrimaryCtxRetain": (OUT_HANDLE, ctypes.c_int),
        "cuCtxGetCurrent": (OUT_HANDLE,),
        "cuCtxSetCurrent": (HANDLE,),
        "cuModuleLoadData": (OUT_HANDLE, ctypes.c_char_p),
        "cuModuleGetFunction": (OUT_HANDLE, HANDLE, ctypes.c_char_p),
        "cuFuncSetAttribute": (HANDLE, ctypes.c_int, ctypes.c_int),
        "cuGetErrorName": (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)),
        "cuLaunchKernel": LAUNCH,
    }

    def __init__(self) -> None:
        super().__init__()
        self.call("cuInit", 0)
        self._contexts: dict[int, int] = {}

    def error_name(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._calls["cuGetErrorName"](status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"

    def place(self, device: int) -> int:
        found = self._contexts.get(device)
        if found is None:
            found = self._contexts[device] = self._primary(device)
        return found

    def allow_dynamic(self, function: int, size: int) -> None:
        if size > _STATIC_LIMIT:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, size)

    def _primary(self, device: int) -> int:
        ordinal, context = ctypes.c_int(), HANDLE()
        self.call("cuDeviceGet", ctypes.byref(ordinal), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        return context.value or 0


@functools.cache
def driver() -> Driver:
    """The CUDA driver of this machine. Raises KgenError (K526) where there is none."""
    return Cuda()
