"""Every environment variable kgen reads, each through a function that looks at each call.

Nothing is read at import, so a variable set later counts. A value that cannot be used raises
`KgenError` (K601) naming the variable, its value and what was expected; `unknown_variables`
reports `KGEN_*` names that mean nothing (K602). `VARIABLES` is the one table of all of them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgen.diagnostics import Diagnostic, KgenError, nearest

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_PREFIX = "KGEN_"


@dataclass(frozen=True)
class Variable:
    """A row of the table: the name, how its value reads, what holds without it, what it is for."""

    name: str
    expected: str
    default: str
    doc: str
    read: Callable[[], object]


def cache_directory() -> Path | None:
    """KGEN_CACHE_DIR: where built kernels are kept; relative paths count from the working folder."""
    text = _text("KGEN_CACHE_DIR")
    return None if text is None else _path(text)


def xdg_cache_home() -> Path | None:
    """XDG_CACHE_HOME: the user's cache folder. A relative one is ignored, as its standard asks."""
    text = _text("XDG_CACHE_HOME")
    return Path(text) if text is not None and Path(text).is_absolute() else None


def jit() -> bool:
    """KGEN_JIT: whether a variant that is not built yet may be built on demand."""
    return _flag("KGEN_JIT", default=True)


def arch() -> str | None:
    """KGEN_ARCH: the target that `native` stands for, in place of what the host reports."""
    return _text("KGEN_ARCH")


def check() -> bool:
    """KGEN_CHECK: whether calls wait for their kernel and the runtime verifies itself after each step."""
    return _flag("KGEN_CHECK", default=False)


def library() -> tuple[Path, ...]:
    """KGEN_LIBRARY: folders of prebuilt libraries, separated like PATH, first one first."""
    text = _text("KGEN_LIBRARY")
    return tuple(_path(part) for part in text.split(os.pathsep) if part.strip()) if text else ()


def num_threads() -> int | None:
    """KGEN_NUM_THREADS: threads of a CPU kernel; None follows the process's OpenMP runtime."""
    return _count("KGEN_NUM_THREADS", minimum=1)


def tune_directory() -> Path | None:
    """KGEN_TUNE_DIR: where tuning tables are; relative paths count from the working folder."""
    text = _text("KGEN_TUNE_DIR")
    return None if text is None else _path(text)


def compiler_launcher() -> tuple[str, ...]:
    """KGEN_COMPILER_LAUNCHER: words put before each compile command, such as `ccache`."""
    return _words("KGEN_COMPILER_LAUNCHER")


def warnings_are_errors() -> bool:
    """KGEN_WERROR: whether a compiler's warning fails the build of a kernel."""
    return _flag("KGEN_WERROR", default=False)


def no_pybind() -> bool:
    """KGEN_NO_PYBIND: whether calls go through ctypes even where the binding could be built."""
    return _flag("KGEN_NO_PYBIND", default=False)


def pa_partition_size() -> int | None:
    """PA_PARTITION_SIZE: overrides the partition size of split-KV decode, -1 for even shares on a GPU; None
    where unset or 0."""
    return _count("PA_PARTITION_SIZE", minimum=-1) or None


def max_jobs() -> int | None:
    """MAX_JOBS: an upper bound on compilers run at once."""
    return _count("MAX_JOBS", minimum=1)


def cxx() -> tuple[str, ...]:
    """CXX: the host C++ compiler, with any words it needs; empty where unset."""
    return _words("CXX")


def clang() -> tuple[str, ...]:
    """KGEN_CLANG: the clang++ that compiles for AMD targets; empty where unset."""
    return _words("KGEN_CLANG")


def cuda_home() -> Path | None:
    """CUDA_HOME: the CUDA toolkit whose `bin/nvcc` compiles for NVIDIA targets."""
    text = _text("CUDA_HOME")
    return None if text is None else _path(text)


def rocm_path() -> Path | None:
    """ROCM_PATH: the ROCm or DTK installation whose compilers build for AMD and DCU targets."""
    text = _text("ROCM_PATH")
    return None if text is None else _path(text)


def _row(name: str, expected: str, default: str, read: Callable[[], object]) -> Variable:
    doc = (read.__doc__ or "").partition(": ")[2].rstrip(".")
    return Variable(name, expected, default, doc, read)


VARIABLES: tuple[Variable, ...] = (
    _row("KGEN_CACHE_DIR", "a folder", "$XDG_CACHE_HOME/kgen", cache_directory),
    _row("KGEN_JIT", "0 or 1", "1", jit),
    _row("KGEN_ARCH", "a target", "the host's best", arch),
    _row("KGEN_CHECK", "0 or 1", "0", check),
    _row("KGEN_LIBRARY", "folders", "none", library),
    _row("KGEN_TUNE_DIR", "a folder", "`tuned` in the cache", tune_directory),
    _row("KGEN_NUM_THREADS", "an integer >= 1", "OpenMP's", num_threads),
    _row("KGEN_COMPILER_LAUNCHER", "a command", "none", compiler_launcher),
    _row("KGEN_NO_PYBIND", "0 or 1", "0", no_pybind),
    _row("KGEN_WERROR", "0 or 1", "0", warnings_are_errors),
    _row("KGEN_CLANG", "a command", "searched", clang),
    _row("PA_PARTITION_SIZE", "an integer >= -1", "0", pa_partition_size),
    _row("MAX_JOBS", "an integer >= 1", "cores and memory", max_jobs),
    _row("CXX", "a command", "g++, clang++ or c++", cxx),
    _row("CUDA_HOME", "a folder", "searched", cuda_home),
    _row("ROCM_PATH", "a folder", "searched", rocm_path),
    _row("XDG_CACHE_HOME", "an absolute folder", "~/.cache", xdg_cache_home),
)


def unknown_variables(environ: Mapping[str, str] | None = None) -> tuple[Diagnostic, ...]:
    """A K602 for each `KGEN_*` variable of the environment that kgen does not read."""
    known = [variable.name for variable in VARIABLES]
    names = sorted(os.environ if environ is None else environ)
    return tuple(_unknown(name, known) for name in names if name.startswith(_PREFIX) and name not in known)


def _unknown(name: str, known: list[str]) -> Diagnostic:
    close = nearest(name, known)
    listed = ", ".join(k for k in known if k.startswith(_PREFIX))
    hint = f"did you mean {close}?" if close else f"kgen reads {listed}"
    return Diagnostic("K602", f"environment variable {name} means nothing to kgen", hint=hint)


def _text(name: str) -> str | None:
    """The value without surrounding blanks; an empty one counts as unset."""
    return os.environ.get(name, "").strip() or None


def _bad(name: str, value: str, expected: str) -> KgenError:
    message = f"environment variable {name} is {value!r}, expected {expected}"
    return KgenError(Diagnostic("K601", message, hint=f"set {name} to {expected}, or unset it"))


def _flag(name: str, default: bool) -> bool:
    text = _text(name)
    if text is None:
        return default
    if text.lower() not in _TRUE + _FALSE:
        raise _bad(name, text, "0 or 1")
    return text.lower() in _TRUE


def _count(name: str, minimum: int) -> int | None:
    text = _text(name)
    if text is None:
        return None
    digits = text.isascii() and text.removeprefix("-" if minimum < 0 else "").isdigit()
    if not digits or len(text) > 9 or int(text) < minimum:
        raise _bad(name, text, f"an integer from {minimum} to 999999999")
    return int(text)


def _words(name: str) -> tuple[str, ...]:
    text = _text(name)
    if text is None:
        return ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise _bad(name, text, f"a command line ({error})") from None


def _path(text: str) -> Path:
    """An absolute path; a `~user` nobody has stays as written."""
    return Path(os.path.expanduser(text)).absolute()  # noqa: PTH111 - Path's raises without a home
