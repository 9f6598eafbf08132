"""Which machine and which versions figures come from."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kgen import __version__, api
from kgen.dispatch import gpu

CPUINFO = Path("/proc/cpuinfo")
PACKAGES = ("flashinfer-python", "triton")
"""What peers are made of, beside torch."""
_QUERIES = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.draw")
_SECONDS = 10


def machine(device: str) -> Mapping[str, Any]:
    """The device, as far as it says: name, size, caches."""
    if device == "cpu":
        name = _cpu_fields().get("model name", [platform.processor()])[0]
        return {"device": name, "threads": torch.get_num_threads(), "cores": len(os.sched_getaffinity(0))}
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "cache_bytes": properties.L2_cache_size,
    }


def clocks(device: str) -> Mapping[str, Any]:
    """Clocks, and of a GPU what else moves with its heat, at this moment; empty where nothing says so."""
    if device == "cpu":
        rates = [float(text) for text in _cpu_fields().get("cpu MHz", [])]
        return {"core_mhz": [min(rates), max(rates)]} if rates else {}
    index = torch.device(device).index or 0
    words = ["nvidia-smi", f"--id={index}", f"--query-gpu={','.join(_QUERIES)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(_QUERIES, (part.strip() for part in done.stdout.split(",")), strict=False))


def versions(device: str) -> Mapping[str, str]:
    """Of kgen, Python, torch, the compiler of the device's kernels, and the peers that are installed."""
    found = {"kgen": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    if device != "cpu" and torch.version.cuda:
        found["cuda"] = torch.version.cuda
    compiler = compiler_of(device)
    if compiler:
        found["compiler"] = compiler
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def compiler_of(device: str) -> str:
    """The compiler of a device's kernels; empty where there is none here."""
    return api.compiler_version(api.compiler().native() if device == "cpu" else gpu.arch_of(device))


def _cpu_fields() -> Mapping[str, list[str]]:
    """The values of each field of /proc/cpuinfo, a processor each."""
    fields: dict[str, list[str]] = {}
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for key, _, value in (line.partition(":") for line in lines):
        fields.setdefault(key.strip(), []).append(value.strip())
    return fields
