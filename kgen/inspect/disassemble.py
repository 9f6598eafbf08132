"""Runs the disassembler of a kernel's machine and reads what it prints."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kgen import env
from kgen.diagnostics import Diagnostic, KgenError
from kgen.inspect import parse
from kgen.inspect.code import Function
from kgen.manifest import Entry

_SECONDS = 120


@dataclass(frozen=True)
class _Tool:
    """How a kind of artefact is disassembled. `{cpu}` in a word is the target's name."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    read: Callable[[str], tuple[Function, ...]]
    hint: str


_LLVM = ("llvm-objdump", *(f"llvm-objdump-{version}" for version in range(22, 16, -1)))
_HOST = _Tool(
    ("objdump", *_LLVM), ("-d", "--no-show-raw-insn"), parse.cpu, "install binutils (`apt install binutils`)"
)
_TOOLS = {
    "hip": _Tool(
        _LLVM,
        ("-d", "--mcpu={cpu}"),
        parse.amd,
        "install llvm-19, or set ROCM_PATH to a ROCm or DTK that knows the target",
    ),
    "cuda": _Tool(
        ("nvdisasm",),
        ("-c",),
        parse.nvidia,
        "install nvdisasm (`pip install nvidia-cuda-nvdisasm`), or set CUDA_HOME",
    ),
    "cpu": _HOST,
    "sim": _HOST,
}


def disassemble(entry: Entry, artefact: Path) -> tuple[Function, ...]:
    """The functions of a built kernel. Raises KgenError (K413) where no disassembler is found or
    none of those found can read the artefact."""
    tool = _TOOLS[entry.kind]
    refusals = []
    for program in _programs(tool, entry.kind):
        words = [word.replace("{cpu}", entry.target) for word in tool.words]
        done = _run([program, *words, str(artefact)])
        functions = tool.read(done.stdout) if done.returncode == 0 else ()
        if any(function.instructions for function in functions):
            return functions
        text = done.stderr.strip().splitlines()
        refusals.append(f"{program}: {text[0] if text else 'nothing in it was disassembled'}")
    what = "none of the disassemblers found can read it" if refusals else f"no {tool.names[0]} found"
    message = f"cannot disassemble {entry.name}: {what}"
    raise KgenError(Diagnostic("K413", message, hint=tool.hint, notes=tuple(refusals)))


def _programs(tool: _Tool, kind: str) -> Iterator[str]:
    """Those installed: of the toolkits the user names first, then on PATH, then of Python packages."""
    for folder in _folders(kind):
        found = shutil.which(tool.names[0], path=str(folder))
        if found:
            yield found
    for name in tool.names:
        found = shutil.which(name)
        if found:
            yield found


def _folders(kind: str) -> Iterator[Path]:
    if kind == "hip":
        roots = [env.rocm_path(), Path("/opt/rocm"), Path("/opt/dtk")]
        yield from (root / "llvm/bin" for root in roots if root)
    elif kind == "cuda":
        roots = [env.cuda_home(), Path("/usr/local/cuda")]
        yield from (root / "bin" for root in roots if root)
        yield from sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin"), reverse=True)


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, "", str(error))
