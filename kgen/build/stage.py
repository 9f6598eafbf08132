"""The private folder a build works in: `<cache>/staging/<random>/`, locked while in use.

Nobody else looks inside. One that a killed build left behind is swept by the next build, which
knows it by its lock being free.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kgen.build.cache import Cache
from kgen.build.job import Job
from kgen.build.lock import FileLock, unwritable

_OWNER = "owner.lock"


@contextmanager
def staging(cache: Cache) -> Iterator[Path]:
    """A fresh staging folder, removed at the end. Raises KgenError (K406)."""
    sweep(cache)
    try:
        folder, owner = _claim(cache)
    except OSError as error:
        raise unwritable(cache.staging, error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        owner.release()


def _claim(cache: Cache) -> tuple[Path, FileLock]:
    cache.staging.mkdir(parents=True, exist_ok=True)
    while True:
        folder = Path(tempfile.mkdtemp(prefix="build-", dir=cache.staging))
        owner = FileLock(folder / _OWNER)
        # A sweep may have come between the two steps and taken the folder for an abandoned one.
        if owner.try_acquire() and (folder / _OWNER).exists():
            return folder, owner
        owner.release()


def sweep(cache: Cache) -> None:
    """Remove the staging folders whose builds are gone."""
    if not cache.staging.is_dir():
        return
    for folder in cache.staging.iterdir():
        if not (folder / _OWNER).exists():
            continue
        owner = FileLock(folder / _OWNER)
        if owner.try_acquire():
            shutil.rmtree(folder, ignore_errors=True)
            owner.release()


def lay_out(stage: Path, jobs: Sequence[Job]) -> None:
    """Write the sources to `<stage>/<number>/` and their headers to `<stage>/include/<digest>/`."""
    for number, job in enumerate(jobs):
        folder = stage / str(number)
        folder.mkdir()
        (folder / job.source).write_text(job.text, encoding="utf-8", newline="")
        include = stage / include_name(job)
        if not include.exists():
            job.headers.write(include)


def include_name(job: Job) -> str:
    """The folder of a job's headers, from the stage."""
    return f"include/{job.headers.digest[:16]}"
