"""A request on its way through the scheduler. Mutable, and seen by the scheduler's own modules only."""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass, field

from kgen.runtime.keys import Key
from kgen.runtime.plan import Output
from kgen.runtime.request import Request


class State(enum.Enum):
    """Where a job is. Only a running one has pages; a swapped one has host pages."""

    WAITING = "waiting"
    RUNNING = "running"
    SWAPPED = "swapped"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Sequence:
    """One continuation of a prompt. `written`: leading tokens whose KV is in memory. `goal`: how far prefill
    goes: the prompt, or, once the KV was given up, all but the last token, which a decode row computes."""

    seq_id: int
    tokens: array[int]
    goal: int
    written: int = 0
    resident: bool = False

    @property
    def prefilled(self) -> bool:
        return self.resident and self.written >= self.goal

    @property
    def data(self) -> bytes:
        return self.tokens.tobytes()


@dataclass(slots=True, eq=False)
class Job:
    """A request and its sequences. `number`: the order of arrival. `key`: what it is looked up by while it
    waits. `bypassed`: later arrivals that were admitted ahead of it."""

    number: int
    request: Request
    sequences: list[Sequence]
    key: Key
    arrived: float
    state: State = State.WAITING
    bypassed: int = 0
    preemptions: int = 0
    cached_tokens: int = 0
    admitted: float | None = None
    first_token: float | None = None
    outputs: list[Output] = field(default_factory=list)

    @property
    def prompt_len(self) -> int:
        return len(self.request.prompt)

    @property
    def width(self) -> int:
        """Sequences to count on: before the first token all that there may be."""
        return len(self.sequences) if self.started else self.request.width

    @property
    def started(self) -> bool:
        """Whether it has its first tokens."""
        return self.first_token is not None

    @property
    def decoding(self) -> bool:
        """Whether every sequence has all KV but that of its last token."""
        return self.started and all(sequence.prefilled for sequence in self.sequences)

    def wanted(self, sequence: Sequence) -> int:
        """Slots there must be room for when a sequence comes into memory: those of its prefill, and where it
        decodes right after, one more."""
        return sequence.goal + self.started

    @property
    def current(self) -> Sequence | None:
        """The sequence whose prefill is under way or comes next."""
        return next((sequence for sequence in self.sequences if not sequence.prefilled), None)

    def give_up_kv(self) -> None:
        """Note that the KV of all sequences is gone."""
        for sequence in self.sequences:
            sequence.resident = False
            sequence.written = 0
            if self.started:
                sequence.goal = len(sequence.tokens) - 1
        self.key = Key(self.sequences[0].data, self.request.namespace)
