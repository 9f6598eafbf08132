"""The phases of a step: making way, decoding, swapping in, prefilling, admitting.

Running jobs are served in the order of their rank: priority where the order is by priority, then arrival. Who
gives way for a decode row is the last in rank, which has no rows in the step yet, so a step is
never rolled back.
"""

from __future__ import annotations

from kgen.runtime.blocks import BlockManager
from kgen.runtime.draft import Draft
from kgen.runtime.job import Job, State
from kgen.runtime.jobs import Jobs
from kgen.runtime.ordering import ordered
from kgen.runtime.request import SchedulerConfig
from kgen.runtime.sharing import worth_waiting
from kgen.runtime.tables import pages_for


class Phases:
    """Fills drafts from the jobs of one scheduler."""

    def __init__(self, manager: BlockManager, config: SchedulerConfig, jobs: Jobs) -> None:
        self._manager = manager
        self._config = config
        self._jobs = jobs

    def run(self, draft: Draft, now: float) -> None:
        """Fill a draft. When running jobs block each other, the last in rank gives way."""
        while self._jobs.num_sequences() > self._config.max_sequences:  # a request forked late
            self._give_way(self._jobs.last(), draft)
        if self._config.order == "priority":
            self._make_way(draft)
        made_way = len(draft.preempted)
        while True:
            draft.moved = False
            self._decode(draft)
            self._swap_in(draft)
            self._prefill(draft)
            while len(draft.preempted) == made_way and self._admit(draft, now):
                pass
            if draft.has_rows or not self._jobs.running:
                return
            if not draft.moved:
                self._give_way(self._jobs.last(), draft)

    def _give_way(self, job: Job, draft: Draft) -> None:
        """Take the memory of a running job: swapped out if wanted and possible, else to be recomputed."""
        draft.parked |= self._jobs.preempt(job, swap=self._config.preemption == "swap")
        draft.preempted.append(job.request.request_id)
        draft.moved = True

    def _make_way(self, draft: Draft) -> None:
        """Preempt lower priorities for the highest one that waits, when that lets it in."""
        jobs = self._jobs
        head = min(jobs.waiting, key=jobs.rank, default=None)
        if head is None or jobs.waiting.any_urgent():
            return
        below = [job for job in jobs.running.values() if job.request.priority < head.request.priority]
        victims = sorted((job for job in below if not jobs.waiting.urgent(job)), key=jobs.rank)
        most = self._manager.pool.num_available + sum(map(self._pages_of, victims))
        sequences = jobs.num_sequences() - sum(job.width for job in victims)
        if sequences + head.width > self._config.max_sequences or self._need(head) > most:
            return
        while victims and not self._would_fit(head):
            self._give_way(victims.pop(), draft)

    def _would_fit(self, job: Job) -> bool:
        """Never true of what would not be admitted."""
        room = self._need(job) <= self._manager.pool.num_available
        return room and self._jobs.num_sequences() + job.width <= self._config.max_sequences

    def _need(self, job: Job) -> int:
        """At most so many pages must be available for a waiting job to be admitted."""
        need = pages_for(job.wanted(job.sequences[0]), self._manager.block_size)
        need += self._manager.watermark_pages
        cache = self._manager.cache
        if cache is None:
            return need
        probe = cache.probe(job.key, len(job.key) - 1)
        return need - probe.length // self._manager.block_size + cache.unprotected_pages(probe)

    def _pages_of(self, job: Job) -> int:
        tables = [self._manager.table(each.seq_id) for each in job.sequences if each.resident]
        return sum(table.num_pages for table in tables)

    def _decode(self, draft: Draft) -> None:
        jobs = [job for job in self._jobs.by_rank() if job.decoding]
        pairs = self._manager.try_append([each.seq_id for job in jobs for each in job.sequences])
        if pairs is None:
            jobs = [job for job in jobs if self._decode_one(job, draft)]
        else:
            draft.copies += pairs
        for job in jobs:
            draft.add_decode(job, self._manager)

    def _decode_one(self, job: Job, draft: Draft) -> bool:
        """Slots for one job when there are not enough for all; false when it is the one that gave way."""
        names = [sequence.seq_id for sequence in job.sequences]
        while job.state is State.RUNNING:
            pairs = self._manager.try_append(names)
            if pairs is not None:
                draft.copies += pairs
                return True
            self._give_way(self._jobs.last(), draft)
        return False

    def _swap_in(self, draft: Draft) -> None:
        """Swapped jobs come back before anyone of worse rank is admitted, but not in a step that swaps out: a
        host page given back could be written before it is read."""
        for job in sorted(self._jobs.swapped.values(), key=self._jobs.rank):
            if draft.preempted or draft.parked:
                return
            if self._jobs.num_sequences() + job.width > self._config.max_sequences:
                return
            pairs = self._jobs.swap_in(job)
            if pairs is None:
                return
            draft.resumed[job.request.request_id] = pairs
            draft.moved = True

    def _prefill(self, draft: Draft) -> None:
        """Go on with prefills that have begun, and bring in the other sequences of a job one by one."""
        for job in self._jobs.by_rank():
            self._advance(job, draft)

    def _advance(self, job: Job, draft: Draft) -> None:
        sequence = job.current
        while sequence is not None and not sequence.resident:
            if not self._jobs.residency.bring_in(job, sequence):
                return
            draft.moved = True
            sequence = job.current
        if sequence is None:
            return
        most = min(draft.tokens_left, self._config.max_chunk or draft.tokens_left)
        if count := min(sequence.goal - sequence.written, most):
            draft.add_prefill(job, sequence, count, self._manager)

    def _admit(self, draft: Draft, now: float) -> bool:
        """Start waiting jobs in their order until one does not fit. Nobody gets ahead of a job of better rank
        that has begun and lacks some of its memory. Returns whether the order has changed under way."""
        jobs, cache = self._jobs, self._manager.cache
        used = jobs.num_sequences()
        if not jobs.waiting or used >= self._config.max_sequences or not draft.tokens_left:
            return False
        lacking = min(map(jobs.rank, jobs.lacking_memory()), default=None)
        for job in self._candidates():
            urgent = jobs.waiting.urgent(job)
            outranked = lacking is not None and lacking < jobs.rank(job)
            if used + job.width > self._config.max_sequences or not draft.tokens_left:
                return False
            if outranked and urgent:
                return False
            if outranked or (
                not urgent and worth_waiting(job, jobs.running.values(), cache, self._config.share_min)
            ):
                continue
            if not jobs.residency.bring_in(job, job.sequences[0]):
                return False
            hurried = jobs.start(job, now)
            used += job.width
            draft.admitted.append(job.request.request_id)
            draft.moved = True
            self._advance(job, draft)
            if hurried:
                return True
        return False

    def _candidates(self) -> list[Job]:
        by_priority = self._config.order == "priority"
        urgent, preempted, others = self._jobs.waiting.candidates(everyone=by_priority)
        if by_priority:
            return urgent + sorted(preempted + others, key=self._jobs.rank)
        return urgent + preempted + ordered(others, self._config.order, self._manager.cache)
