"""Rendered variants in, built kernels out, each compiled once however many processes ask.

    look up -> claim the locks that are free -> compile in a private folder -> check -> publish
            -> wait for what others are building -> look up again

No lock is held while waiting for another, so builders cannot deadlock; each lock is given up as
soon as its kernel is in place, and whatever was built before a failure is kept.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from kgen import paths
from kgen.build import errors, graph
from kgen.build.cache import ENTRY, LOG, Cache, digest, discard
from kgen.build.capacity import job_count
from kgen.build.job import Job, make_jobs
from kgen.build.lock import FileLock, unwritable
from kgen.build.progress import Mode, Reporter, reporter
from kgen.build.readback import Unfit, read_back
from kgen.build.stage import lay_out, staging
from kgen.diagnostics import Diagnostic, KgenError
from kgen.manifest import Entry, to_json
from kgen.render.model import Rendered

# Artefacts in one graph: each holds a lock, which is an open file.
_GRAPH_LIMIT = 400


def build(
    rendered: Sequence[Rendered],
    *,
    cache_dir: Path | None = None,
    jobs: int | None = None,
    progress: Mode | Reporter = "auto",
    include_dir: Path | None = None,
    syntax_only: bool = False,
) -> tuple[Entry, ...]:
    """The built kernel of each variant, in order, compiling what the cache lacks.

    `artefact` of a result is relative to the cache folder. `jobs` bounds the compilers run at
    once, as MAX_JOBS, cores and memory do. Writes nothing when all is there. With `syntax_only`
    sources are checked (`kgen.build.syntax`), and the results are no kernels.

    Raises KgenError with every fault: K401 (does not compile), K402 (no compiler or ninja), K403
    (compiler does not know the target), K404, K405 (unusable, over its limits), K406 (cache not
    writable), K408 (header missing), K409 (ninja failed). What did build stays in the cache.
    """
    todo = make_jobs(rendered, include_dir or paths.include_dir(), syntax_only=syntax_only)
    return build_jobs(todo, Cache(cache_dir or paths.cache_dir()), jobs, reporter(progress))


def build_jobs(todo: Sequence[Job], cache: Cache, limit: int | None, tell: Reporter) -> tuple[Entry, ...]:
    """The entry of each job, in order; see `build`."""
    found: dict[str, Entry] = {}
    missing: dict[str, Job] = {}
    for job in todo:
        entry = cache.lookup(job.key)
        if entry is None:
            missing[job.key] = job
        else:
            found[job.key] = entry
            cache.touch(job.key)
    if missing:
        try:
            found |= _Builder(cache, limit, tell).make(missing)
        finally:
            tell.end()
    return tuple(found[job.key] for job in todo)


class _Builder:
    """One build call that has something to make."""

    def __init__(self, cache: Cache, limit: int | None, tell: Reporter) -> None:
        self.cache = cache
        self.limit = limit
        self.tell = tell
        self.found: dict[str, Entry] = {}
        self.failures: list[errors.Failure] = []
        self.faults: list[Diagnostic] = []

    def make(self, missing: dict[str, Job]) -> dict[str, Entry]:
        """Every missing entry, built here or by others. Raises KgenError with all faults."""
        left = dict(missing)
        while left:
            locks = self._claim(left)
            try:
                mine = [left.pop(key) for key in locks]
                self._take_finished(mine)
                self._compile([job for job in mine if job.key not in self.found], locks)
            finally:
                for lock in locks.values():
                    lock.release()
            if left and not locks:
                self._wait(next(iter(left.values())))
        self.faults.extend(errors.diagnostics(self.failures))
        if self.faults:
            raise KgenError(self.faults)
        return self.found

    def _claim(self, left: dict[str, Job]) -> dict[str, FileLock]:
        """The locks of missing keys that nobody holds, up to a graph's worth."""
        locks: dict[str, FileLock] = {}
        try:
            for key in left:
                lock = self.cache.lock(key)
                if len(locks) < _GRAPH_LIMIT and lock.try_acquire():
                    locks[key] = lock
        except BaseException:
            for lock in locks.values():
                lock.release()
            raise
        return locks

    def _take_finished(self, mine: Sequence[Job]) -> None:
        """What another builder finished between our look and our lock."""
        for job in mine:
            entry = self.cache.lookup(job.key)
            if entry is not None:
                self.found[job.key] = entry

    def _wait(self, job: Job) -> None:
        """Until nobody builds this one any more; whether it is there then is looked up again."""
        lock = self.cache.lock(job.key)
        lock.acquire(lambda holder: self.tell.waiting(job.entry.name, holder))
        lock.release()

    def _compile(self, mine: Sequence[Job], locks: dict[str, FileLock]) -> None:
        if not mine:
            return
        memory = max(job.toolchain.memory for job in mine)
        parallel = min(len(mine), job_count(self.limit, memory))
        self.tell.begin(len(mine), parallel)
        with staging(self.cache) as stage:
            try:
                lay_out(stage, mine)
            except OSError as error:
                raise unwritable(stage, error) from None
            for event in graph.run(stage, mine, parallel):
                job = mine[event.number]
                if event.status is None:
                    self.tell.started(job.entry.name)
                    continue
                ok = self._finish(job, stage / str(event.number), event)
                self.tell.finished(job.entry.name, event.seconds, ok)
                locks[job.key].release()

    def _finish(self, job: Job, staged: Path, event: graph.Event) -> bool:
        """Check and publish one compiled artefact, or keep its failure."""
        (staged / "started").unlink()
        (staged / "status").unlink()
        log = (staged / LOG).read_text(errors="replace")
        if event.status:
            kept = self._keep_failed(job, staged)
            command = shlex.join(graph.compile_command(job))
            self.failures.append(errors.Failure(job, event.status, log, command, kept))
            return False
        try:
            resources = read_back(job, staged / job.entry.artefact, log)
        except Unfit as unfit:
            self._keep_failed(job, staged)
            self.faults.append(unfit.diagnostic)
            return False
        entry = dataclasses.replace(
            job.entry,
            sha256=digest(staged / job.entry.artefact),
            resources=resources,
            compile_seconds=round(event.seconds, 3),
        )
        (staged / ENTRY).write_text(to_json(entry), encoding="utf-8")
        self.cache.publish(staged, job.key)
        self.found[job.key] = dataclasses.replace(entry, artefact=f"kernels/{job.key}/{entry.artefact}")
        return True

    def _keep_failed(self, job: Job, staged: Path) -> Path:
        target = self.cache.failed / job.key
        discard(target, self.cache.staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(staged, target)
        return target
