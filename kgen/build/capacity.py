"""How many compilers may run at once: cores, MAX_JOBS, and memory that is really there.

Limits of the control group (a container's) count as much as the machine's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kgen import env

_ROOT = Path("/")


def job_count(asked: int | None, memory_each: int, root: Path = _ROOT) -> int:
    """Compilers to run at once, at least 1. `root` is where /proc and /sys are looked up."""
    bounds = [cores(root)]
    bounds += [limit for limit in (asked, env.max_jobs()) if limit is not None]
    memory = available_memory(root)
    if memory is not None:
        bounds.append(memory // memory_each)
    return max(1, min(bounds))


def cores(root: Path = _ROOT) -> int:
    """Cores this process may use, after affinity and the control group's quota."""
    usable = len(os.sched_getaffinity(0))
    for group in _groups(root):
        quota, _, period = (_read(group / "cpu.max") or "").partition(" ")
        quota = quota or _read(group / "cpu.cfs_quota_us") or ""
        period = period or _read(group / "cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit() and int(period):
            usable = min(usable, max(1, int(quota) // int(period)))
    return usable


def available_memory(root: Path = _ROOT) -> int | None:
    """Bytes that can still be used, or None where nothing says so."""
    lines = (_read(root / "proc/meminfo") or "").splitlines()
    bounds = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for group in _groups(root):
        names = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        for limit_name, used_name in names:
            limit, used = _read(group / limit_name), _read(group / used_name)
            if limit and used and limit.isdigit() and used.isdigit():
                free = int(limit) - int(used) + _reclaimable(group)
                bounds.append(max(0, free))
    return min(bounds) if bounds else None


def _reclaimable(group: Path) -> int:
    """File pages that count as used but give way under pressure."""
    for line in (_read(group / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file" and value.isdigit():
            return int(value)
    return 0


def _groups(root: Path) -> Iterator[Path]:
    """Folders of this process's control group and of those above it, versions 1 and 2."""
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        base = root / "sys/fs/cgroup" / (controllers if controllers else "")
        if controllers and controllers not in ("memory", "cpu", "cpu,cpuacct"):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:depth])


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
