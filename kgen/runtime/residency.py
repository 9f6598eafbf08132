"""Bringing the sequences of a job into memory, and giving their memory up again."""

from __future__ import annotations

import numpy as np

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.job import Job, Sequence
from kgen.runtime.keys import TOKEN_BYTES, Key, tokens_of
from kgen.runtime.results import Match
from kgen.runtime.room import Room
from kgen.runtime.tables import pages_for


class Residency:
    """What the scheduler does with the block manager, one sequence at a time."""

    def __init__(self, manager: BlockManager) -> None:
        self.manager = manager

    def bring_in(self, job: Job, sequence: Sequence) -> bool:
        """Slots for all of a sequence's prefill, as much of it from the cache or from a sibling as there is.
        False, with nothing changed, when there is no room now."""
        if self._fork_in(job, sequence):
            return True
        match = self._match(job, sequence)
        if self.manager.room_for(job.wanted(sequence), match) is not Room.OK:
            return False
        self.manager.allocate(sequence.seq_id, sequence.goal, match, job.request.namespace)
        sequence.resident = True
        sequence.written = match.length if match is not None else 0
        return True

    def store(self, job: Job, sequence: Sequence) -> None:
        """Let the cache have what is written of a sequence, if its request may be cached."""
        if job.request.insert and self.manager.cache is not None and sequence.written:
            self.manager.checkpoint(sequence.seq_id, sequence.data, sequence.written, job.request.priority)

    def drop(self, job: Job, sequence: Sequence, keep: bool = True) -> None:
        """End a resident sequence. `keep`: what is written of it stays in the cache."""
        if keep:
            self.store(job, sequence)
        self.manager.free(sequence.seq_id)
        sequence.resident = False

    def retract(self, job: Job, keep: bool = True) -> None:
        """Give up the memory of a job, to be computed again."""
        for sequence in job.sequences:
            if sequence.resident:
                self.drop(job, sequence, keep)
        job.give_up_kv()

    def forget_swapped(self, job: Job) -> None:
        """Give up the host memory of a job."""
        for sequence in job.sequences:
            self.manager.free(sequence.seq_id)
        job.give_up_kv()

    def swap_out(self, job: Job) -> list[Pair] | None:
        """Move a job to host memory; None, with nothing changed, when it cannot."""
        names = [sequence.seq_id for sequence in job.sequences]
        if not all(sequence.resident for sequence in job.sequences):
            return None
        if not self.manager.room_to_swap_out(names):
            return None
        for sequence in job.sequences:
            sequence.resident = False
        return self.manager.swap_out(names)

    def swap_in(self, job: Job) -> list[Pair] | None:
        """Bring a job back from host memory; None when there is no room now."""
        names = [sequence.seq_id for sequence in job.sequences]
        if self.manager.room_to_swap_in(names) is not Room.OK:
            return None
        for sequence in job.sequences:
            sequence.resident = True
        return self.manager.swap_in(names, job.request.namespace)

    def _match(self, job: Job, sequence: Sequence) -> Match | None:
        cache = self.manager.cache
        if cache is None:
            return None
        key = Key(sequence.data, job.request.namespace)
        return cache.match_prefix(key, len(sequence.tokens) - 1)

    def _fork_in(self, job: Job, sequence: Sequence) -> bool:
        """Share whole pages of a sibling that has more of them than the cache knows."""
        sibling, length = self._nearest(job, sequence)
        if sibling is None:
            return False
        size, cache = self.manager.block_size, self.manager.cache
        key = Key(sequence.data, job.request.namespace)
        cached = cache.probe(key, sequence.goal).length if cache is not None else 0
        more = pages_for(job.wanted(sequence), size) - length // size
        if length <= cached or more > self.manager.pool.num_available:
            return False
        self.manager.fork(sibling.seq_id, sequence.seq_id, length)
        self.manager.append_slots([sequence.seq_id], sequence.goal - length)
        sequence.resident = True
        sequence.written = length
        return True

    def _nearest(self, job: Job, sequence: Sequence) -> tuple[Sequence | None, int]:
        """The resident sibling with most of this prefill written, and how much, in whole pages."""
        best, most = None, 0
        for sibling in job.sequences:
            if sibling is not sequence and sibling.resident:
                limit = min(sibling.written, sequence.goal)
                length = common_tokens(sibling.data, sequence.data, limit)
                length -= length % self.manager.block_size
                if length > most:
                    best, most = sibling, length
        return best, most


def common_tokens(one: bytes, other: bytes, limit: int) -> int:
    """Tokens that both begin with, at most `limit`."""
    count = min(limit, len(one) // TOKEN_BYTES, len(other) // TOKEN_BYTES)
    differ = tokens_of(one)[:count] != tokens_of(other)[:count]
    return int(np.argmax(differ)) if np.count_nonzero(differ) else count
