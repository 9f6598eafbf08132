"""The jobs of a scheduler by state, and how they change state."""

from __future__ import annotations

from collections.abc import Hashable

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.job import Job, State
from kgen.runtime.request import SchedulerConfig
from kgen.runtime.residency import Residency
from kgen.runtime.waiting import Waiting


class Jobs:
    """`running` and `swapped` by request id; `waiting` by arrival. A job is in one of them until it ends."""

    def __init__(self, manager: BlockManager, config: SchedulerConfig) -> None:
        self.residency = Residency(manager)
        self.waiting = Waiting(config.max_bypass, config.order_window)
        self.running: dict[Hashable, Job] = {}
        self.swapped: dict[Hashable, Job] = {}
        self._by_priority = config.order == "priority"

    def rank(self, job: Job) -> tuple[int, int]:
        """Smaller is served first and gives way last."""
        return (-job.request.priority if self._by_priority else 0), job.number

    def by_rank(self) -> list[Job]:
        """The running jobs, those served first first."""
        return sorted(self.running.values(), key=self.rank)

    def last(self) -> Job:
        """The running job that gives way first."""
        return max(self.running.values(), key=self.rank)

    def num_sequences(self) -> int:
        """Sequences that running jobs have or will have."""
        return sum(job.width for job in self.running.values())

    def lacking_memory(self) -> list[Job]:
        """Jobs that have begun and are not wholly in memory."""
        running = self.running.values()
        partly = [job for job in running if not all(sequence.resident for sequence in job.sequences)]
        return [*self.swapped.values(), *partly]

    def start(self, job: Job, now: float) -> bool:
        """A waiting job, whose first sequence is in memory, runs. Returns whether another is urgent now."""
        hurried = self.waiting.admit(job)
        if job.admitted is None:
            job.admitted = now
            job.cached_tokens = job.sequences[0].written
        job.state = State.RUNNING
        self.running[job.request.request_id] = job
        return hurried

    def wait(self, job: Job) -> None:
        """A job without memory waits."""
        job.state = State.WAITING
        self.waiting.add(job)

    def preempt(self, job: Job, *, swap: bool, keep: bool = True) -> dict[Hashable, list[Pair]]:
        """Take the memory of a running job; returns the copies to host memory by request, if any are to be
        made. `keep`: what is written of it stays in the cache."""
        name = job.request.request_id
        del self.running[name]
        job.preemptions += 1
        pairs = self.residency.swap_out(job) if swap else None
        if pairs is None:
            self.residency.retract(job, keep)
            self.wait(job)
            return {}
        job.state = State.SWAPPED
        self.swapped[name] = job
        return {name: pairs}

    def swap_in(self, job: Job) -> list[Pair] | None:
        """A swapped job runs again; returns the copies, or None when there is no room now."""
        pairs = self.residency.swap_in(job)
        if pairs is not None:
            name = job.request.request_id
            del self.swapped[name]
            job.state = State.RUNNING
            self.running[name] = job
        return pairs

    def forget_swapped(self, job: Job) -> None:
        """A swapped job loses its host memory, and waits."""
        del self.swapped[job.request.request_id]
        self.residency.forget_swapped(job)
        self.wait(job)

    def end(self, job: Job, keep: bool) -> None:
        """Take a job out, wherever it is, and give its memory up. `keep`: what is written of it stays in the
        cache."""
        if job.state is State.SWAPPED:
            self.forget_swapped(job)
        if job.state is State.WAITING:
            self.waiting.remove(job)
        else:
            del self.running[job.request.request_id]
            self.residency.retract(job, keep)
        job.state = State.ENDED
