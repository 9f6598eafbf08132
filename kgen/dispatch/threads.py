"""The OpenMP runtime this process already has, so that kernels share torch's threads.

A second runtime would mean a second pool of threads on the same cores. Kernels therefore link no
OpenMP of their own: they are handed the addresses of GOMP_parallel and omp_get_thread_num.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

MAPS = Path("/proc/self/maps")
SYSTEM = "libgomp.so.1"
_RUNTIME = re.compile(r"^lib(gomp|iomp5|omp)\b.*\.so", re.ASCII)


@dataclass(frozen=True)
class Runtime:
    """Addresses of GOMP_parallel and omp_get_thread_num; 0 and 0 mean there is none (serial)."""

    parallel: int
    thread_num: int
    path: str


SERIAL = Runtime(0, 0, "")


@functools.cache
def runtime() -> Runtime:
    """The runtime kernels share: the one torch loaded, else the system's, else none."""
    import torch  # noqa: F401  (loads the runtime that is looked for)

    for path in mapped_runtimes(_maps()):
        found = _open(path, os.RTLD_NOW | getattr(os, "RTLD_NOLOAD", 0))
        if found is not None:
            return found
    return _open(SYSTEM, os.RTLD_NOW) or SERIAL


def mapped_runtimes(maps: str) -> tuple[str, ...]:
    """Paths of the OpenMP runtimes in a /proc/PID/maps text, in order, torch's own first."""
    paths = [line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")]
    found = dict.fromkeys(path.strip() for path in paths if _RUNTIME.match(Path(path.strip()).name))
    return tuple(sorted(found, key=lambda path: "torch" not in path))


def _maps() -> str:
    try:
        return MAPS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _open(path: str, mode: int) -> Runtime | None:
    try:
        library = ctypes.CDLL(path, mode=mode)
        symbols = library.GOMP_parallel, library.omp_get_thread_num
    except (OSError, AttributeError):
        return None
    parallel, thread_num = (ctypes.cast(symbol, ctypes.c_void_p).value or 0 for symbol in symbols)
    return Runtime(parallel, thread_num, path)
