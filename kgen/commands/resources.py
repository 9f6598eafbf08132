"""The resource columns of `kgen list`: what was planned beside what the compiler made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.manifest import Entry, Scalar
    from kgen.targets.occupancy import Occupancy, Use
    from kgen.variants.model import Variant

Row = dict[str, str]


def built_entries(build: str) -> Mapping[str, Entry]:
    """What the last `kgen build` of this build noted of each kernel, by name; empty before one."""
    from kgen.manifest_read import read_library
    from kgen.paths import cache_dir

    file = cache_dir() / "libraries" / f"{build}.json"
    return {entry.name: entry for entry in read_library(file).entries} if file.exists() else {}


def resource_row(variant: Variant, entry: Entry | None) -> Row:
    """Columns by title, pairs as planned / real; a column that says nothing of this variant is not there."""
    row: Row = {}
    plan, real = variant.resources, real_use(variant, entry)
    if plan is not None:
        real_lds = real.lds_bytes if real else None
        row["LDS"] = _pair(plan.lds_bytes, real_lds)
        row["registers"] = _pair(plan.registers, real.registers if real else None)
        held = real_occupancy(variant, entry)
        row["waves"] = _pair(_waves(plan.occupancy), _waves(held))
        best = held or plan.occupancy
        row["limited by"] = ", ".join(best.limited_by) if best else "-"
    if entry is not None:
        for name in ("spills", "scratch_bytes", "bytes"):
            if name in entry.resources:
                row[name.removesuffix("_bytes")] = str(entry.resources[name])
        row["compile s"] = f"{entry.compile_seconds:.2f}"
    return row


def real_use(variant: Variant, entry: Entry | None) -> Use | None:
    """What a compiled GPU kernel takes; None where it is not built, or its compiler did not say."""
    from kgen.targets.occupancy import Use

    if entry is None or variant.resources is None:
        return None
    found = entry.resources
    registers = found.get("vgpr", found.get("registers"))
    if registers is None:
        return None
    dynamic = entry.launch.dynamic_lds if entry.launch else 0
    lds = int(found.get("lds_bytes", 0)) + dynamic
    return Use(variant.resources.threads, int(registers), int(found.get("sgpr", 0)), lds)


def real_occupancy(variant: Variant, entry: Entry | None) -> Occupancy | None:
    """The occupancy of a compiled kernel by the rules of its target."""
    from kgen.targets.occupancy import occupancy

    use = real_use(variant, entry)
    return occupancy(variant.target, use) if use else None


def resources_json(variant: Variant, entry: Entry | None) -> Mapping[str, object]:
    """Planned and real figures as plain fields; `real` is empty where the kernel is not built."""
    plan = variant.resources
    real: dict[str, Scalar | Mapping[str, object]] = dict(entry.resources) if entry else {}
    if entry is not None:
        real["compile_seconds"] = round(entry.compile_seconds, 2)
    held = real_occupancy(variant, entry)
    if held is not None:
        real["occupancy"] = occupancy_json(held)
    planned: dict[str, object] = {}
    if plan is not None:
        planned = {"threads": plan.threads, "lds_bytes": plan.lds_bytes, "registers": plan.registers}
        planned["occupancy"] = occupancy_json(plan.occupancy) if plan.occupancy else None
    return {"planned": planned, "resources": real}


def occupancy_json(held: Occupancy) -> Mapping[str, object]:
    """An occupancy as plain fields."""
    return {
        "blocks": held.blocks,
        "waves": held.waves,
        "max_waves": held.max_waves,
        "limits": dict(held.limits),
        "limited_by": list(held.limited_by),
    }


def _waves(held: Occupancy | None) -> int | None:
    return held.waves if held else None


def _pair(planned: int | None, real: int | None) -> str:
    return f"{'-' if planned is None else planned} / {'-' if real is None else real}"
