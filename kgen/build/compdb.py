"""compile_commands.json: how each kept source compiles, for editors and static checkers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kgen import paths
from kgen.build.cache import Cache
from kgen.build.job import make_jobs
from kgen.render.model import Rendered


def write_compile_commands(
    path: Path,
    rendered: Sequence[Rendered],
    *,
    cache_dir: Path | None = None,
    include_dir: Path | None = None,
) -> bool:
    """Write the database of these variants to `path`; their sources are those the cache keeps.

    A file that would not change is not touched (editors index again when it is); the result says
    whether it did. Raises KgenError as `build` does for a missing compiler or header.
    """
    include = include_dir or paths.include_dir()
    cache = Cache(cache_dir or paths.cache_dir())
    commands = []
    for job in make_jobs(rendered, include):
        folder = cache.folder(job.key)
        words = job.toolchain.command(job.source, job.entry.artefact, str(include), job.more)
        commands.append(
            {"directory": str(folder), "file": str(folder / job.source), "arguments": list(words)}
        )
    commands.sort(key=lambda command: str(command["file"]))
    text = json.dumps(commands, indent=1) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True
