"""What the machine kgen runs on can execute, and which target that is.

Only features the operating system reports are trusted: Linux lists AVX-512 in /proc/cpuinfo only
where it also saves the wide registers. Elsewhere the set is empty, and the portable target is native.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from kgen import env
from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.spec.build import NATIVE, SIMULATED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kgen.spec.catalog import Catalog
    from kgen.spec.model import TargetSpec

CPUINFO = Path("/proc/cpuinfo")


def host_features() -> frozenset[str]:
    """The instruction-set flags every core of this machine has, as /proc/cpuinfo spells them."""
    return _read_features(CPUINFO)


@functools.cache
def _read_features(path: Path) -> frozenset[str]:
    try:
        return parse_features(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return frozenset()


def parse_features(cpuinfo: str) -> frozenset[str]:
    """The flags common to all processors of a /proc/cpuinfo text (hybrid machines differ by core)."""
    cores = [
        frozenset(value.split())
        for key, _, value in (line.partition(":") for line in cpuinfo.splitlines())
        if key.strip() in ("flags", "Features")
    ]
    return frozenset.intersection(*cores) if cores else frozenset()


def native_target(catalog: Catalog) -> str:
    """The best CPU target this machine can run; KGEN_ARCH names another instead.

    Raises K601 for a KGEN_ARCH that is no target, K604 where no CPU target fits this machine."""
    chosen = env.arch()
    if chosen not in (None, NATIVE):
        return _chosen(chosen, catalog.targets)
    return best_target(catalog.targets, host_features())


def best_target(targets: Mapping[str, TargetSpec], features: frozenset[str]) -> str:
    """The widest CPU target whose every requirement is among `features`."""
    fitting = [t for t in targets.values() if t.family == "cpu" and features.issuperset(t.requires)]
    if not fitting:
        known = ", ".join(sorted(t.name for t in targets.values() if t.family == "cpu")) or "none"
        message = f"no CPU target fits this machine (CPU targets: {known})"
        raise KgenError(Diagnostic("K604", message, hint="name a target with KGEN_ARCH or --arch"))
    return max(fitting, key=lambda t: (t.vector_bits, len(t.requires), t.name)).name


def arch_choices(targets: Mapping[str, TargetSpec]) -> tuple[str, ...]:
    """Every name an `arch` may take: the targets, and `sim:` forms of those that are not CPUs."""
    names = sorted(targets)
    return (*names, *(SIMULATED + name for name in names if targets[name].family != "cpu"))


def _chosen(name: str, targets: Mapping[str, TargetSpec]) -> str:
    choices = arch_choices(targets)
    if name in choices:
        return name
    message = f"KGEN_ARCH={name!r} is no target"
    raise KgenError(Diagnostic("K601", message, hint=choice_hint(name, choices)))
