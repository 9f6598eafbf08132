"""Libraries: kernels that were built together, with the policies dispatch selects them by.

`write_library` makes a folder that stands alone and can be carried to another machine;
`register_library` names kernels where they lie in the cache, so that dispatch finds them.
Both replace what was there in one step, and the documents hold no absolute path.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from kgen import paths
from kgen.build.cache import Cache, digest, discard
from kgen.build.lock import unwritable
from kgen.diagnostics import Diagnostic, KgenError
from kgen.manifest import Entry, Library, Policy, to_json
from kgen.manifest_read import read_library

FILE = "library.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def write_library(
    folder: Path,
    name: str,
    entries: Sequence[Entry],
    policies: Sequence[Policy],
    *,
    cache_dir: Path | None = None,
) -> Path:
    """A self-contained library at `folder`: library.json and the artefacts of `entries` (results
    of `build` with the same cache), each copied and checked. Returns the path of library.json.

    An older library there is replaced. Raises KgenError: K410 where `folder` holds something else
    or cannot be written, K411 where an artefact is not what its entry says.
    """
    folder = folder.absolute()
    if folder.exists() and not _replaceable(folder):
        hint = "name a folder that is new, empty, or an older library"
        raise KgenError(Diagnostic("K410", f"{folder} is not a kgen library", hint=hint))
    root = cache_dir or paths.cache_dir()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as private:
            staged = Path(private) / "new"
            _fill(staged, name, entries, policies, root)
            discard(folder, Path(private))
            staged.rename(folder)
    except OSError as error:
        raise KgenError(Diagnostic("K410", f"cannot write {folder}: {error.strerror}")) from None
    return folder / FILE


def register_library(
    name: str,
    entries: Sequence[Entry],
    policies: Sequence[Policy],
    *,
    cache_dir: Path | None = None,
    keep: bool = False,
) -> Path:
    """Name results of `build` as the library `<cache>/libraries/<name>.json`, for dispatch to find.

    With `keep`, kernels and policies registered under the name before stay, unless new ones of
    the same name (or operator) replace them, or their operator's spec or templates have changed.
    Raises KgenError (K406) where the cache cannot be written, K410 for a name that is no file
    name. Writes nothing where nothing changes.
    """
    if not _NAME.fullmatch(name):
        raise KgenError(
            Diagnostic("K410", f"library name {name!r} must be letters, digits, '_', '.' and '-'")
        )
    cache = Cache(cache_dir or paths.cache_dir())
    path = cache.libraries / f"{name}.json"
    new = Library(name, tuple(_from_library(entry) for entry in entries), tuple(policies))
    if not keep and _holds(path, new):
        return path
    with cache.lock(f"library-{name}"):
        library = _merged(path, new) if keep else _sorted(new)
        if not _holds(path, library):
            _replace(path, to_json(library))
    return path


def forget_kernels(cache: Cache, keys: Iterable[str]) -> None:
    """Take kernels that were removed out of every registered library; empty ones go."""
    gone = frozenset(keys)
    for path in sorted(cache.libraries.glob("*.json")) if gone else ():
        with cache.lock(f"library-{path.stem}"):
            try:
                library = read_library(path)
            except KgenError:
                path.unlink(missing_ok=True)
                continue
            left = tuple(entry for entry in library.entries if entry.key not in gone)
            if not left:
                path.unlink(missing_ok=True)
            elif len(left) < len(library.entries):
                _replace(path, to_json(dataclasses.replace(library, entries=left)))


def _fill(staged: Path, name: str, entries: Sequence[Entry], policies: Sequence[Policy], root: Path) -> None:
    kernels = staged / "kernels"
    kernels.mkdir(parents=True)
    placed = []
    for entry in sorted(entries, key=lambda e: e.key):
        artefact = f"kernels/{entry.key}{Path(entry.artefact).suffix}"
        try:
            shutil.copyfile(root / entry.artefact, staged / artefact)
            sha256 = digest(staged / artefact)
        except OSError:
            sha256 = ""
        if sha256 != entry.sha256:
            message = f"{entry.artefact} is missing or is not what was built"
            raise KgenError(Diagnostic("K411", message, hint="build again"))
        placed.append(dataclasses.replace(entry, artefact=artefact))
    document = to_json(_sorted(Library(name, tuple(placed), tuple(policies))))
    (staged / FILE).write_text(document, encoding="utf-8")


def _replaceable(folder: Path) -> bool:
    return folder.is_dir() and ((folder / FILE).is_file() or not any(folder.iterdir()))


def _from_library(entry: Entry) -> Entry:
    """The entry as seen from <cache>/libraries."""
    return dataclasses.replace(entry, artefact=f"../{entry.artefact}")


def _sorted(library: Library) -> Library:
    """Same kernels, same bytes, in whatever order they were given."""
    entries = {entry.key: entry for entry in library.entries}
    policies = {policy.op: policy for policy in library.policies}
    return dataclasses.replace(
        library,
        entries=tuple(entries[key] for key in sorted(entries)),
        policies=tuple(policies[op] for op in sorted(policies)),
    )


def _merged(path: Path, new: Library) -> Library:
    """What is registered already (unless unreadable), overlaid with the new. Kernels of a spec or of
    templates that have changed since go: their policy is not theirs any more."""
    try:
        old = read_library(path)
    except KgenError:
        return _sorted(new)
    origin = {policy.op: (policy.spec_hash, policy.sources) for policy in old.policies}
    changed = {
        p.op for p in new.policies if origin.get(p.op, (p.spec_hash, p.sources)) != (p.spec_hash, p.sources)
    }
    names = {entry.name for entry in new.entries}
    kept = tuple(entry for entry in old.entries if entry.name not in names and entry.op not in changed)
    return _sorted(Library(new.name, (*kept, *new.entries), (*old.policies, *new.policies)))


def _holds(path: Path, library: Library) -> bool:
    try:
        return path.read_text(encoding="utf-8") == to_json(_sorted(library))
    except (OSError, UnicodeDecodeError):
        return False


def _replace(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, staged = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(staged).chmod(0o644)
        Path(staged).replace(path)
    except OSError as error:
        raise unwritable(path, error) from None
