"""A step, as the scheduler hands it to an engine, and what the engine hands back.

The engine does, in this order: the copies of `swap_out`, of `swap_in`, of `copies`; then it writes the KV of
all rows to their slots and attends. Pages and slots are read-only views, good until the step is committed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kgen.runtime.blocks import Pair
from kgen.runtime.pages import Pages
from kgen.runtime.tables import Slots


@dataclass(frozen=True, slots=True, eq=False)
class PrefillChunk:
    """Tokens start..start+len(tokens)-1 of one sequence, all of whose earlier KV is in memory.

    `tokens` int32 and `slots` int64 [n]: what to compute, and where its KV goes. `pages` int32: the block
    table up to the chunk's last token. `samples`: the last row's logits are wanted.
    """

    request_id: Hashable
    seq_id: int
    tokens: npt.NDArray[np.int32]
    start: int
    slots: Slots
    pages: Pages
    samples: bool

    @property
    def seq_len(self) -> int:
        """Tokens with KV once the chunk is written."""
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRow:
    """One token of a sequence: its id, its position, the slot of its KV, and the block table up to it."""

    request_id: Hashable
    seq_id: int
    token: int
    position: int
    slot: int
    pages: Pages

    @property
    def seq_len(self) -> int:
        """Tokens with KV once the row is written."""
        return self.position + 1


Row = PrefillChunk | DecodeRow


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """All of one step. Copies are (source page, destination page); of `swap_out` the destination and of
    `swap_in` the source is a host page. The last four are request ids: admitted; preempted; of those and of
    the retracted ones, whose KV `swap_out` moves; and whose KV `swap_in` brings back."""

    number: int
    prefills: tuple[PrefillChunk, ...] = ()
    decodes: tuple[DecodeRow, ...] = ()
    swap_out: tuple[Pair, ...] = ()
    swap_in: tuple[Pair, ...] = ()
    copies: tuple[Pair, ...] = ()
    admitted: tuple[Hashable, ...] = ()
    preempted: tuple[Hashable, ...] = ()
    parked: tuple[Hashable, ...] = ()
    resumed: tuple[Hashable, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """Prefills, then decodes."""
        return (*self.prefills, *self.decodes)

    @property
    def num_tokens(self) -> int:
        """Query rows of the step."""
        return len(self.decodes) + sum(len(chunk.tokens) for chunk in self.prefills)

    @property
    def sampled(self) -> tuple[int, ...]:
        """The sequences whose next token `commit` must be given, prefills first."""
        return (
            *(chunk.seq_id for chunk in self.prefills if chunk.samples),
            *(row.seq_id for row in self.decodes),
        )

    @property
    def is_empty(self) -> bool:
        """Nothing to do."""
        return not (self.prefills or self.decodes or self.swap_out or self.swap_in or self.copies)


@dataclass(frozen=True, slots=True)
class Branch:
    """A sampled token. `finish`: why the sequence ends with it, such as "stop"; None lets it go on."""

    token: int
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that a sequence got. `parent_id` is the row it was sampled from; another id means a fork."""

    request_id: Hashable
    seq_id: int
    parent_id: int
    token: int
    finish: str | None


@dataclass(frozen=True, slots=True)
class Output:
    """A finished sequence: its new tokens and why it ended."""

    seq_id: int
    tokens: tuple[int, ...]
    finish: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A request with all its sequences ended. `cached_tokens`: of the prompt, found when it was first
    admitted. Times are the scheduler's clock, in seconds."""

    request_id: Hashable
    outputs: tuple[Output, ...]
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    arrived: float
    admitted: float
    first_token: float
    finished: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a commit brought: tokens in the order of the plan, and the requests that ended."""

    tokens: tuple[NewToken, ...] = ()
    finished: tuple[Finished, ...] = field(default=())
