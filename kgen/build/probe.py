"""What a compiler says of itself, asked once per executable.

The answers are remembered under the executable's resolved path, size and time of change, so an
upgrade or another PATH asks again.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Variables that change what the compilers do; those that are set are part of an identity.
_STEERING = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIPCC_LINK_FLAGS_APPEND",
)
_PLACES = re.compile(r"^(InstalledDir|Configuration file|HIP version file):.*$", re.MULTILINE)
_CALLED_BY = re.compile(r"^\S+ (?=\()")  # g++ opens with the name it was run by
_PROBE_SECONDS = 60

Stamp = tuple[str, int, int]


def find(name: str) -> str | None:
    """The executable that `name` (a path, or a word looked up on PATH) runs, or None."""
    return shutil.which(name)


def identity(words: tuple[str, ...]) -> str:
    """Version, machine, options and steering variables of a compiler: equal for equal compilers
    whatever path or link they are reached by."""
    version = _version(words, _stamp(words[0]))
    options = [word for word in words[1:] if word.startswith("-")]
    steering = [f"{name}={os.environ[name]}" for name in _STEERING if os.environ.get(name)]
    return "\n".join([version, *options, *steering])


def refusal(words: tuple[str, ...], language: str, source: str) -> str | None:
    """Why these compile words cannot build `source`, in a line; None where they can."""
    return _refusal(words, language, source, _stamp(words[0]))


def _stamp(name: str) -> Stamp:
    path = os.path.realpath(find(name) or name)
    try:
        status = Path(path).stat()
    except OSError:
        return (path, 0, 0)
    return (path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _version(words: tuple[str, ...], _: Stamp) -> str:
    """`--version` without the name it was called by or places it lives in, and `-dumpmachine`."""
    text = _PLACES.sub("", _ask((*words, "--version"))).strip()
    text = _CALLED_BY.sub("", text)
    return f"{text}\n{_ask((*words, '-dumpmachine')).strip()}"


@functools.lru_cache(maxsize=64)
def _refusal(words: tuple[str, ...], language: str, source: str, _: Stamp) -> str | None:
    with tempfile.TemporaryDirectory(prefix="kgen-probe-") as folder:
        argv = [*words, "-x", language, "-", "-o", str(Path(folder) / "out")]
        try:
            done = _run(argv, source)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if "error" in line] or done.stdout.splitlines()
    return lines[0].strip() if lines else f"exit status {done.returncode}"


def _ask(argv: tuple[str, ...]) -> str:
    """What the command prints; nothing where it fails (nvcc has no -dumpmachine)."""
    try:
        done = _run(list(argv), "")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _run(argv: list[str], text: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(
        argv,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        timeout=_PROBE_SECONDS,
        check=False,
    )
