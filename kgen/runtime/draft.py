"""A step plan in the making."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from typing import TypeVar

import numpy as np

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.job import Job
from kgen.runtime.job import Sequence as JobSequence
from kgen.runtime.pages import Pages
from kgen.runtime.plan import DecodeRow, PrefillChunk, StepPlan
from kgen.runtime.tables import Slots, pages_for


class Draft:
    """Rows, copies, and what is left of the step's token budget. `moved`: whether anything has changed hands
    since it was last looked at, rows or not."""

    def __init__(self, number: int, max_tokens: int, parked: dict[Hashable, list[Pair]]) -> None:
        self.number = number
        self.tokens_left = max_tokens
        self.prefills: list[PrefillChunk] = []
        self.decodes: list[DecodeRow] = []
        self.parked = parked  # copies to host memory by request
        self.resumed: dict[Hashable, list[Pair]] = {}  # copies from there
        self.copies: list[Pair] = []
        self.admitted: list[Hashable] = []
        self.preempted: list[Hashable] = []
        self.moved = False

    @property
    def has_rows(self) -> bool:
        return bool(self.prefills or self.decodes or self.resumed)

    def add_decode(self, job: Job, manager: BlockManager) -> None:
        """A row for each sequence of a job, whose slots have been appended."""
        for sequence in job.sequences:
            position = len(sequence.tokens) - 1
            pages = _read_only(manager.table(sequence.seq_id).pages)
            slot = int(pages[position // manager.block_size]) * manager.block_size
            slot += position % manager.block_size
            row = (job.request.request_id, sequence.seq_id, sequence.tokens[-1], position, slot, pages)
            self.decodes.append(DecodeRow(*row))
        self.tokens_left -= len(job.sequences)

    def add_prefill(self, job: Job, sequence: JobSequence, count: int, manager: BlockManager) -> None:
        """The next `count` tokens of a prefill."""
        start, stop = sequence.written, sequence.written + count
        tokens = np.array(sequence.tokens[start:stop], np.int32)
        slots = manager.slots(sequence.seq_id, start, stop)
        pages = manager.table(sequence.seq_id).pages[: pages_for(stop, manager.block_size)]
        samples = not job.started and stop == sequence.goal
        self.prefills.append(
            PrefillChunk(
                job.request.request_id,
                sequence.seq_id,
                _read_only(tokens),
                start,
                _read_only(slots),
                _read_only(pages),
                samples,
            )
        )
        self.tokens_left -= count

    def plan(self) -> StepPlan:
        """The finished plan."""
        return StepPlan(
            self.number,
            tuple(self.prefills),
            tuple(self.decodes),
            tuple(chain.from_iterable(self.parked.values())),
            tuple(chain.from_iterable(self.resumed.values())),
            tuple(self.copies),
            tuple(self.admitted),
            tuple(self.preempted),
            tuple(self.parked),
            tuple(self.resumed),
        )


_Array = TypeVar("_Array", Pages, Slots)


def _read_only(values: _Array) -> _Array:
    view = values.view()
    view.flags.writeable = False
    return view
