"""One hash for everything, the spec of the operator aside, that the source of a kernel comes from."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from kgen import paths


@functools.cache
def sources_hash() -> str:
    """sha256 of the templates, the headers and the targets: names and bytes, no time and no place."""
    digest = hashlib.sha256()
    for folder in (paths.templates_dir(), paths.specs_dir() / "targets"):
        for file in sorted(_files(folder)):
            text = (folder / file).read_bytes()
            digest.update(f"{file.as_posix()} {len(text)}\n".encode())
            digest.update(text)
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    hidden = (".", "__")
    return [
        file.relative_to(folder)
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(hidden)
    ]
