"""Built kernels on disk, by key.

    <cache>/kernels/<key>/    artefact, source, compile.log, entry.json, seal
    <cache>/locks/<key>.lock  held while a key is built or removed; never unlinked
    <cache>/staging/          private folders of running builds
    <cache>/failed/<key>/     source and log of a compile that failed
    <cache>/libraries/        what was built together, one document a build

A kernel's folder appears whole by one rename. Its `seal` lists the size and SHA-256 of every
file in it, and then its own; a folder that does not match its seal counts as missing. Reading writes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from kgen.build.lock import FileLock
from kgen.diagnostics import KgenError
from kgen.manifest import Entry
from kgen.manifest_read import read_entry

SEAL = "seal"
ENTRY = "entry.json"
LOG = "compile.log"
_DIGITS = 64  # of a SHA-256 in hex


@dataclasses.dataclass(frozen=True)
class Cache:
    """The folders below `root`. Methods create what they need; `lookup` never does."""

    root: Path

    @property
    def kernels(self) -> Path:
        return self.root / "kernels"

    @property
    def staging(self) -> Path:
        return self.root / "staging"

    @property
    def failed(self) -> Path:
        return self.root / "failed"

    @property
    def libraries(self) -> Path:
        return self.root / "libraries"

    def folder(self, key: str) -> Path:
        return self.kernels / key

    def lock(self, name: str) -> FileLock:
        """The lock of a key (or of a library document, as `library-<name>`)."""
        return FileLock(self.root / "locks" / f"{name}.lock")

    def lookup(self, key: str) -> Entry | None:
        """The sealed entry of this key, every byte checked; None where it is missing or damaged.

        `artefact` of the result is relative to the cache's root.
        """
        folder = self.folder(key)
        sealed = _check_seal(folder)
        if sealed is None or ENTRY not in sealed:
            return None
        try:
            entry = read_entry(folder / ENTRY)
        except KgenError:
            return None
        if entry.key != key or sealed.get(entry.artefact) != entry.sha256:
            return None
        return dataclasses.replace(entry, artefact=f"kernels/{key}/{entry.artefact}")

    def publish(self, staged: Path, key: str) -> None:
        """Seal the staged folder and rename it into place. The caller holds the key's lock."""
        _write_seal(staged)
        target = self.folder(key)
        self.kernels.mkdir(parents=True, exist_ok=True)
        discard(target, self.staging)
        staged.rename(target)
        discard(self.failed / key, self.staging)

    def touch(self, key: str) -> None:
        """Note that the entry was used, for `clean` by age; nothing depends on it."""
        try:
            os.utime(self.folder(key))
        except OSError:
            return


def discard(path: Path, trash: Path) -> bool:
    """Remove a folder so that nobody sees it half gone. False where there was none."""
    if not path.exists():
        return False
    trash.mkdir(parents=True, exist_ok=True)
    away = Path(tempfile.mkdtemp(prefix="trash-", dir=trash))
    try:
        path.rename(away / "old")
    except FileNotFoundError:
        return False
    finally:
        shutil.rmtree(away, ignore_errors=True)
    return True


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_seal(folder: Path) -> None:
    lines = [f"{digest(path)} {path.stat().st_size} {path.name}\n" for path in sorted(folder.iterdir())]
    text = "".join(lines).encode()
    (folder / SEAL).write_bytes(text + hashlib.sha256(text).hexdigest().encode())


def _check_seal(folder: Path) -> dict[str, str] | None:
    """File name -> SHA-256 of a folder that matches its seal; None for any other."""
    try:
        seal = (folder / SEAL).read_bytes()
        text = seal[:-_DIGITS]
        if hashlib.sha256(text).hexdigest().encode() != seal[-_DIGITS:]:
            return None
        sealed: dict[str, str] = {}
        for line in text.decode().splitlines():
            sha256, size, name = line.split(" ", 2)
            content = (folder / name).read_bytes()
            if len(content) != int(size) or hashlib.sha256(content).hexdigest() != sha256:
                return None
            sealed[name] = sha256
    except (OSError, ValueError):
        return None
    return sealed
