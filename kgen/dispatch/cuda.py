"""NVIDIA kernels through the CUDA driver API, in the primary contexts that torch uses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.driver import HANDLE, LAUNCH, OUT_HANDLE, Driver

_STATIC_LIMIT = 48 * 1024
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # a CUfunction_attribute
MAP_BYTES = 128
"""A CUtensorMap, which lies at a multiple of 64."""
ENCODE = "cuTensorMapEncodeTiled"
AXES = 5
# CUtensorMapDataType, by the bytes of an element: what is moved is not looked at.
ELEMENTS: Mapping[int, int] = {1: 0, 2: 1, 4: 2}
# CUtensorMapInterleave none, CUtensorMapSwizzle of 128 bytes, CUtensorMapL2promotion of 128, zeros outside.
# With a promotion to 256 bytes, twice what a box has of a row, decode reads 5% slower.
HOW = (0, 3, 2, 0)


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
        ENCODE: (HANDLE, ctypes.c_int, ctypes.c_uint, *(HANDLE,) * 5, *(ctypes.c_int,) * 4),
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

    def encode(self, each: TensorMap, words: ctypes.Array[ctypes.c_int64]) -> ctypes.Array[Any]:
        room = (ctypes.c_uint64 * (MAP_BYTES // 8 + 7))()
        shift = -ctypes.addressof(room) % 64
        made = (ctypes.c_uint64 * (MAP_BYTES // 8)).from_buffer(room, shift)
        if each.place < 0 or not words[each.place]:
            return made
        sizes, strides = (ctypes.c_uint64 * AXES)(*each.sizes), (ctypes.c_uint64 * (AXES - 1))(*each.strides)
        box, steps = (ctypes.c_uint32 * AXES)(*each.box), (ctypes.c_uint32 * AXES)(*(1,) * AXES)
        element = ELEMENTS[each.element_bytes]
        lies = (ctypes.addressof(made), element, AXES, words[each.place], sizes, strides, box, steps)
        self.call(ENCODE, *lies, *HOW)
        return made

    def _primary(self, device: int) -> int:
        ordinal, context = ctypes.c_int(), HANDLE()
        self.call("cuDeviceGet", ctypes.byref(ordinal), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        return context.value or 0


@functools.cache
def driver() -> Driver:
    """The CUDA driver of this machine. Raises KgenError (K526) where there is none."""
    return Cuda()
