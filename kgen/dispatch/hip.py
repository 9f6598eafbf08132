"""AMD and Hygon kernels through the HIP module API of ROCm or DTK."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kgen.dispatch.driver import HANDLE, LAUNCH, OUT_HANDLE, Driver


class Hip(Driver):
    """libamdhip64. Devices are current by number, and dynamic LDS needs no asking."""

    NAME = "HIP"
    LIBRARY = "libamdhip64.so"
    LOAD, FUNCTION, START = "hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel"
    GET, SET, PLACE = "hipGetDevice", "hipSetDevice", ctypes.c_int
    CALLS: ClassVar[Mapping[str, Sequence[Any]]] = {
        "hipInit": (ctypes.c_uint,),
        "hipGetDevice": (ctypes.POINTER(ctypes.c_int),),
        "hipSetDevice": (ctypes.c_int,),
        "hipModuleLoadData": (OUT_HANDLE, ctypes.c_char_p),
        "hipModuleGetFunction": (OUT_HANDLE, HANDLE, ctypes.c_char_p),
        "hipModuleLaunchKernel": LAUNCH,
    }

    def __init__(self) -> None:
        super().__init__()
        self._name = self.library.hipGetErrorName
        self._name.argtypes, self._name.restype = [ctypes.c_int], ctypes.c_char_p
        self.call("hipInit", 0)

    def error_name(self, status: int) -> str:
        text = self._name(status)
        return text.decode() if text else f"error {status}"

    def place(self, device: int) -> int:
        return device

    def allow_dynamic(self, function: int, size: int) -> None:
        """Nothing to ask."""


@functools.cache
def driver() -> Driver:
    """The HIP driver of this machine. Raises KgenError (K526) where there is none."""
    return Hip()
