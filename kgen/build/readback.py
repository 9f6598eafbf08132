"""What the compiler made of a kernel, read back from the artefact and its log.

Resources by kind: `cpu` and `sim` bytes; `hip` registers (vgpr, agpr, sgpr), lds_bytes,
scratch_bytes, spills; `cuda` registers, lds_bytes, scratch_bytes, spills. Compared with what the
plan allows: more spills than the operator says in `let: {allow_spill: ...}` are an error, and shared
memory must be what `let: {lds_bytes: ...}` predicts, where it does.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kgen.build import elf
from kgen.build.job import Job
from kgen.build.syntax import KIND as SYNTAX
from kgen.diagnostics import Diagnostic
from kgen.manifest import Entry, Scalar

_HOSTS = {"x86_64": "x86-64", "aarch64": "AArch64", "riscv64": "RISC-V"}
_MACHINES = {"hip": "AMDGPU", "cuda": "CUDA"}
_FUNCTION = re.compile(r"Compiling entry function '([^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHOWN_SYMBOLS = 10
_SHARED = re.compile(r"(\d+) bytes smem")


class Unfit(Exception):
    """A compiled artefact that must not be used, with the diagnostic that says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


def read_back(job: Job, artefact: Path, log: str) -> Mapping[str, Scalar]:
    """The resources of a fresh artefact. Raises Unfit (K404 unusable, K405 over its limits)."""
    name = job.entry.name
    if job.entry.kind == SYNTAX and artefact.is_file():
        return {"bytes": artefact.stat().st_size}
    try:
        data = artefact.read_bytes()
        file = elf.read(data)
    except (OSError, elf.Malformed) as error:
        raise Unfit(Diagnostic("K404", f"{name}: the compiler left no usable artefact: {error}")) from None
    wanted = _MACHINES.get(job.entry.kind) or _HOSTS.get(platform.machine(), file.machine)
    if file.machine != wanted:
        message = f"{name}: the compiler made code for {file.machine}, expected {wanted}"
        raise Unfit(Diagnostic("K404", message))
    kernels = _kernels(job.entry)
    for symbol in kernels:
        if symbol not in file.symbols:
            visible = ", ".join(sorted(file.symbols)[:_SHOWN_SYMBOLS]) or "none"
            hint = 'the source must define it as extern "C" and visible; it has: ' + visible
            raise Unfit(Diagnostic("K404", f"{name}: no symbol {symbol} in the artefact", hint=hint))
    resources = {"bytes": len(data), **_resources(job.entry.kind, kernels, file, log)}
    _check(job, resources)
    return resources


def _kernels(entry: Entry) -> tuple[str, ...]:
    """The symbols a launch runs, in order."""
    symbols = []
    launch = entry.launch
    while launch is not None:
        symbols.append(launch.symbol or entry.symbol)
        launch = launch.then
    return tuple(dict.fromkeys(symbols)) if symbols and entry.kind in _MACHINES else (entry.symbol,)


def _resources(kind: str, kernels: Sequence[str], file: elf.Elf, log: str) -> dict[str, int]:
    """The largest figure of any of the kernels, by name."""
    found: dict[str, int] = {}
    for symbol in kernels:
        figures = {"hip": _amd(file.metadata, symbol), "cuda": _nvidia(log, symbol)}.get(kind, {})
        for name, value in figures.items():
            found[name] = max(value, found.get(name, 0))
    return found


def _amd(metadata: Mapping[str, Any], symbol: str) -> dict[str, int]:
    kernels = [k for k in metadata.get("amdhsa.kernels", []) if k.get(".name") == symbol]
    if not kernels:
        return {}
    kernel = kernels[0]
    scratch = kernel.get(".private_segment_fixed_size", 0)
    # Words of a lane's scratch: the compiler also counts scalars that went to lanes of a vector register, and
    # vector registers that went to accumulation registers.
    return {
        "vgpr": kernel.get(".vgpr_count", 0),
        "agpr": kernel.get(".agpr_count", 0),
        "sgpr": kernel.get(".sgpr_count", 0),
        "lds_bytes": kernel.get(".group_segment_fixed_size", 0),
        "scratch_bytes": scratch,
        "spills": -(-scratch // 4),
        "wave": kernel.get(".wavefront_size", 0),
    }


def _nvidia(log: str, symbol: str) -> dict[str, int]:
    """From the assembler's report: the part between this entry function and the next."""
    parts = _FUNCTION.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if name == symbol:
            return _figures(text)
    return {}


def _figures(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    if registers := _REGISTERS.search(text):
        found["registers"] = int(registers[1])
        shared = _SHARED.search(text)
        found["lds_bytes"] = int(shared[1]) if shared else 0
    if frame := _FRAME.search(text):
        found["scratch_bytes"] = int(frame[1])
        found["spills"] = (int(frame[2]) + int(frame[3])) // 4
    return found


def _check(job: Job, resources: Mapping[str, Scalar]) -> None:
    name, limits = job.entry.name, job.limits
    spills = resources.get("spills", 0)
    if int(spills) > limits.spills:
        hint = f"make the tile smaller, or allow as many in the operator: let: {{allow_spill: {spills}}}"
        scratch = resources.get("scratch_bytes", 0)
        message = f"{name}: the compiler spilled {spills} registers ({scratch} bytes of scratch)"
        raise Unfit(Diagnostic("K405", message, hint=hint))
    if limits.lds_bytes is None or "lds_bytes" not in resources:
        return
    dynamic = job.entry.launch.dynamic_lds if job.entry.launch else 0
    compiled = int(resources["lds_bytes"]) + dynamic
    if compiled != limits.lds_bytes:
        message = f"{name}: {compiled} bytes of shared memory compiled, {limits.lds_bytes} predicted"
        raise Unfit(Diagnostic("K405", message, hint="correct lds_bytes of the operator or the template"))
