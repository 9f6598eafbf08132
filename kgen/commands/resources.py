"""The resource columns of `kgen list`: what was planned beside what the compiler made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.manifest import Entry, Scalar
    from kgen.targets.occupancy import Occupancy
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
    from kgen.inspect.report import real_occupancy, real_use

    row: Row = {}
    plan, real = variant.resources, real_use(entry) if entry else None
    if plan is not None:
        real_lds = real.lds_bytes if real else None
        row["LDS"] = _pair(plan.lds_bytes, real_lds)
        row["registers"] = _pair(plan.registers, real.registers if real else None)
        held = real_occupancy(entry, variant.target) if entry else None
        row["waves"] = _pair(_waves(plan.occupancy), _waves(held))
        best = held or plan.occupancy
        row["limited by"] = ", ".join(best.limited_by) if best else "-"
    if entry is not None:
        for name in ("spills", "scratch_bytes", "bytes"):
            if name in entry.resources:
                row[name.removesuffix("_bytes")] = str(entry.resources[name])
        row["compile s"] = f"{entry.compile_seconds:.2f}"
    return row


def resources_json(variant: Variant, entry: Entry | None) -> Mapping[str, object]:
    """Planned and real figures as plain fields; `real` is empty where the kernel is not built."""
    from kgen.inspect.report import real_occupancy

    plan = variant.resources
    real: dict[str, Scalar | Mapping[str, object]] = dict(entry.resources) if entry else {}
    if entry is not None:
        real["compile_seconds"] = round(entry.compile_seconds, 2)
    held = real_occupancy(entry, variant.target) if entry else None
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
