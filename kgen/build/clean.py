"""What the cache holds, and removing it while others may be using it.

A kernel is removed only under its lock, by renaming its folder away first: a build never finds
half of one, and processes that have it loaded keep it. Lock files stay (see lock.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kgen import paths
from kgen.build.cache import Cache, discard
from kgen.build.library import forget_kernels
from kgen.build.stage import sweep
from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.manifest_read import read_library


@dataclass(frozen=True)
class Kept:
    """One kernel's folder: its key, bytes of all its files, when a build last used it
    (seconds since the epoch), and the registered libraries that name it."""

    key: str
    size: int
    used: float
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Removed:
    """What a removal did. `busy`: keys another process is building, left alone."""

    keys: tuple[str, ...]
    size: int
    busy: tuple[str, ...]


def contents(cache_dir: Path | None = None) -> tuple[Kept, ...]:
    """Every kernel of the cache, by key. Reads only."""
    cache = Cache(cache_dir or paths.cache_dir())
    named = _named(cache)
    if not cache.kernels.is_dir():
        return ()
    found = []
    for folder in sorted(cache.kernels.iterdir()):
        try:
            size = sum(path.stat().st_size for path in folder.iterdir())
            used = folder.stat().st_mtime
        except OSError:
            continue  # removed meanwhile
        found.append(Kept(folder.name, size, used, tuple(named.get(folder.name, ()))))
    return tuple(found)


def clean(
    *,
    build: str | None = None,
    older_than: float | None = None,
    cache_dir: Path | None = None,
    dry_run: bool = False,
) -> Removed:
    """Remove kernels, and what failed or abandoned builds left.

    Without arguments all go; `build` keeps to those that only this registered build names;
    `older_than` to those no build used for that many seconds. Raises KgenError (K412) for a
    build that is not registered, naming those that are.
    """
    cache = Cache(cache_dir or paths.cache_dir())
    limit = time.time() - older_than if older_than is not None else None

    def chosen(kept: Kept) -> bool:
        return (build is None or kept.libraries == (build,)) and (limit is None or kept.used < limit)

    registered = sorted(path.stem for path in cache.libraries.glob("*.json"))
    if build is not None and build not in registered:
        hint = choice_hint(build, registered)
        raise KgenError(Diagnostic("K412", f"no build '{build}' is registered in {cache.root}", hint=hint))
    keys = [kept for kept in contents(cache.root) if chosen(kept)]
    if dry_run:
        return Removed(tuple(kept.key for kept in keys), sum(kept.size for kept in keys), ())
    removed = _remove(cache, keys)
    if build is not None and limit is None and not removed.busy:
        (cache.libraries / f"{build}.json").unlink(missing_ok=True)
    if cache.root.is_dir():
        sweep(cache)
        _discard_failed(cache, lambda path: limit is None or path.stat().st_mtime < limit)
    return removed


def _remove(cache: Cache, chosen: Iterable[Kept]) -> Removed:
    gone: list[Kept] = []
    busy: list[str] = []
    for kept in chosen:
        lock = cache.lock(kept.key)
        if not lock.try_acquire():
            busy.append(kept.key)
            continue
        try:
            if discard(cache.folder(kept.key), cache.staging):
                gone.append(kept)
        finally:
            lock.release()
    keys = tuple(kept.key for kept in gone)
    forget_kernels(cache, keys)
    return Removed(keys, sum(kept.size for kept in gone), tuple(busy))


def _discard_failed(cache: Cache, old: Callable[[Path], bool]) -> None:
    for folder in sorted(cache.failed.iterdir()) if cache.failed.is_dir() else ():
        lock = cache.lock(folder.name)
        if not lock.try_acquire():
            continue
        try:
            if folder.exists() and old(folder):
                discard(folder, cache.staging)
        finally:
            lock.release()


def _named(cache: Cache) -> dict[str, list[str]]:
    """Key -> the registered libraries that name it."""
    named: dict[str, list[str]] = {}
    for path in sorted(cache.libraries.glob("*.json")):
        try:
            library = read_library(path)
        except KgenError:
            continue
        for entry in library.entries:
            named.setdefault(entry.key, []).append(path.stem)
    return named
