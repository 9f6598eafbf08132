"""Requests that wait, and the bound on how long.

Whenever a request is admitted, every older one still waiting has been bypassed once more. One that has been
bypassed `max_bypass` times is urgent: urgent requests come first, oldest first, and whoever cannot be
admitted stops the rest. So at most `max_bypass` later arrivals are ever admitted ahead of a request, and it
goes in as soon as the older ones did and it fits, whatever the order prefers and however many arrive.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from kgen.runtime.job import Job


class Waiting:
    """Jobs by arrival."""

    def __init__(self, max_bypass: int, window: int) -> None:
        self._jobs: list[Job] = []
        self._max_bypass = max_bypass
        self._window = window

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def add(self, job: Job) -> None:
        """Put in a job, new or given back."""
        insort(self._jobs, job, key=_number)

    def remove(self, job: Job) -> None:
        """Take out a job that is in here."""
        del self._jobs[bisect_left(self._jobs, job.number, key=_number)]

    def admit(self, job: Job) -> bool:
        """Take out a job because it starts; whoever is older has been bypassed. Returns whether that made one
        of them urgent."""
        self.remove(job)
        older = self._jobs[: bisect_left(self._jobs, job.number, key=_number)]
        for each in older:
            each.bypassed += 1
        return any(each.bypassed == self._max_bypass for each in older)

    def urgent(self, job: Job) -> bool:
        """Whether nobody later may go ahead of this job any more."""
        return job.bypassed >= self._max_bypass

    def any_urgent(self) -> bool:
        """Whether any job is."""
        return any(map(self.urgent, self._jobs))

    def candidates(self, everyone: bool) -> tuple[list[Job], list[Job], list[Job]]:
        """The oldest jobs, or everyone, by arrival: urgent ones, preempted ones, and others."""
        urgent: list[Job] = []
        preempted: list[Job] = []
        others: list[Job] = []
        for job in self._jobs if everyone else self._jobs[: self._window]:
            kind = urgent if self.urgent(job) else preempted if job.preemptions else others
            kind.append(job)
        return urgent, preempted, others


def _number(job: Job) -> int:
    return job.number
