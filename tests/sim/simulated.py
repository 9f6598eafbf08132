"""Compiles kernels of the dialect for the simulator and calls them."""

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kgen import paths

SOURCE = Path(__file__).with_name("kernels.cpp")
FLAGS = ("-std=c++17", "-O0", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-DKGEN_SIM=1")


def compile_kernels(output: Path, wave: int = 64, *flags: str, source: Path = SOURCE) -> "Kernels":
    """kernels.cpp for waves of so many lanes."""
    compile_library(output, f"-DKGEN_WAVE={wave}", *flags, source=source)
    return Kernels(ctypes.CDLL(str(output)))


def compile_library(output: Path, *flags: str, source: Path) -> None:
    """A source of the dialect as a shared library for the simulator."""
    include = f"-I{paths.include_dir()}"
    subprocess.run(["g++", *FLAGS, *flags, include, str(source), "-o", str(output)], check=True)


def fault_line(kernel: str, source: Path = SOURCE) -> int:
    """The line of `kernel` that is marked FAULT."""
    lines = source.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"KERNEL({kernel})"))
    return next(i for i, line in enumerate(lines[start:], start + 1) if "FAULT" in line)


@dataclass(frozen=True)
class Answer:
    """What a call returned, its error word and what the simulator says."""

    code: int
    error: tuple[int, ...]
    message: str


class Kernels:
    """The kernels of one shared library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.kgen_sim_message.restype = ctypes.c_char_p
        library.kgen_sim_counter.restype = ctypes.c_int64

    def call(self, kernel: str, data) -> Answer:
        """Run over `data`, a contiguous tensor of 4-byte elements."""
        error = (ctypes.c_int64 * 4)(9, 9, 9, 9)
        words = (ctypes.c_int64 * 5)(1, 5, ctypes.addressof(error), data.data_ptr(), data.numel())
        code = getattr(self._library, f"run_{kernel}")(words)
        return Answer(code, tuple(error), self._library.kgen_sim_message().decode())

    def counter(self, name: str) -> int:
        return self._library.kgen_sim_counter(name.encode())

    def keep_writes(self, keep: bool) -> None:
        self._library.kgen_sim_keep_writes(int(keep))
