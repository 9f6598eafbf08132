"""One artefact to make: everything a compiler needs to know, and the key it is kept under."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.build import toolchains
from kgen.build.headers import HeaderReader, HeaderSet
from kgen.build.syntax import for_syntax
from kgen.build.toolchains import Toolchain
from kgen.manifest import ABI_VERSION, SCHEMA_VERSION, Entry
from kgen.render.model import LineOrigin, Rendered
from kgen.variants.policy import rule_of

_HASH_DIGITS = 16


@dataclass(frozen=True)
class Limits:
    """What the compiled code must keep to. `spills`: registers it may store and load again, at most;
    `lds_bytes`: the shared memory the plan predicts."""

    spills: int = 0
    lds_bytes: int | None = None


@dataclass(frozen=True)
class Job:
    """`entry` is complete but for what only the artefact can tell (sha256, resources, seconds)."""

    entry: Entry
    text: str
    source: str  # file name of the source
    headers: HeaderSet
    toolchain: Toolchain
    origins: tuple[LineOrigin, ...] = ()
    limits: Limits = Limits()
    more: tuple[str, ...] = ()  # further compile words that may hold paths; not in the key

    @property
    def key(self) -> str:
        return self.entry.key


def make_jobs(
    rendered: Sequence[Rendered], include_dir: Path, *, syntax_only: bool = False
) -> tuple[Job, ...]:
    """A job for each variant; with `syntax_only` one that checks its source and makes no kernel.

    Raises KgenError for a missing compiler (K402, K403) or header (K408)."""
    find = for_syntax if syntax_only else toolchains.for_target
    reader = HeaderReader(include_dir)
    known: dict[tuple[int, bool], Toolchain] = {}
    jobs = []
    for one in rendered:
        at = (id(one.variant.target), one.variant.simulated)
        if at not in known:
            known[at] = find(one.variant.target, one.variant.simulated)
        jobs.append(_job(one, known[at], reader.read(one.headers, one.variant.name)))
    return tuple(jobs)


def _job(rendered: Rendered, toolchain: Toolchain, headers: HeaderSet) -> Job:
    variant = rendered.variant
    target = f"sim:{variant.target.name}" if variant.simulated else variant.target.name
    entry = Entry(
        name=variant.name,
        op=variant.op.name,
        key="",
        params=dict(variant.params),
        target=target,
        kind=toolchain.kind,
        artefact=toolchain.artefact,
        symbol=rendered.symbol,
        sha256="",
        requires=variant.target.requires if toolchain.kind == "cpu" else (),
        launch=rendered.launch,
        variant=rule_of(variant.mask) if variant.mask is not None and variant.mask.of_build else None,
    )
    limits = Limits(
        spills=_whole(variant.lets.get("allow_spill")) or 0,
        lds_bytes=_whole(variant.lets.get("lds_bytes")),
    )
    return keyed(
        Job(entry, rendered.text, f"kernel{rendered.suffix}", headers, toolchain, rendered.origins, limits)
    )


def keyed(job: Job, identity: str = "") -> Job:
    """The job under its key: the readable name and a hash of all that decides the artefact.

    Paths and times take no part, so the same input has the same key on every machine.
    """
    entry = dataclasses.asdict(job.entry)
    entry.pop("variant")  # its place is a path
    facts = {
        "abi": ABI_VERSION,
        "schema": SCHEMA_VERSION,
        "entry": entry,
        "source": hashlib.sha256(job.text.encode()).hexdigest(),
        "file": job.source,
        "headers": job.headers.digest,
        "words": job.toolchain.words("{include}"),
        "compiler": job.toolchain.identity,
        "limits": dataclasses.asdict(job.limits),
        "identity": identity,
    }
    if job.entry.variant is not None:
        facts["variant"] = repr(job.entry.variant.meaning)
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    key = f"{job.entry.name}-{digest[:_HASH_DIGITS]}"
    return dataclasses.replace(job, entry=dataclasses.replace(job.entry, key=key))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
