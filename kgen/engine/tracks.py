"""The continuations of one request: what a step's logits make of them, and what they have become.

A track proposes branches without changing anything, and takes them over once the step is confirmed: a step
that fails, or is planned again, starts from where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from kgen.engine.params import SamplingParams
from kgen.engine.request import Completion, TokenEvent
from kgen.engine.sampling import choose
from kgen.engine.text import Decode, TextStream
from kgen.runtime import Branch, NewToken

STOP, LENGTH, ABORT = "stop", "length", "abort"

Rows = Mapping[int, Tensor]
"""The logits [vocab] float32 of each sequence that was sampled, by sequence id."""


@dataclass(frozen=True)
class Ending:
    """What ends a continuation: ids, whole or of the model, and text, where there is a way to make text."""

    tokens: frozenset[int]
    decode: Decode | None


class Track(Protocol):
    """What both ways of continuing do."""

    def propose(self, rows: Rows) -> dict[int, list[Branch]]:
        """The branches of each sequence, for `Scheduler.commit`."""
        ...

    def settle(self, new: Sequence[NewToken]) -> list[TokenEvent]:
        """Take over what was proposed last; `new` are the tokens of this request, as they were confirmed."""
        ...

    def completions(self, otherwise: str) -> tuple[Completion, ...]:
        """What there is; whatever has not ended is said to end for the reason `otherwise`."""
        ...


@dataclass(slots=True)
class _Sample:
    """One continuation as it grows."""

    index: int
    tokens: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    stream: TextStream = field(default_factory=TextStream)
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class _Next:
    """What a sample goes on with."""

    sample: _Sample
    token: int
    text: str
    stream: TextStream
    finish: str | None


class SampleTrack:
    """Greedy decoding, or `n` samples, each from its own draws."""

    def __init__(self, name: object, params: SamplingParams, ending: Ending) -> None:
        self._name, self._params, self._ending = name, params, ending
        self._samples = [_Sample(index) for index in range(params.n)]
        self._by_sequence: dict[int, _Sample] = {}
        self._proposed: dict[int, list[_Next]] = {}

    def propose(self, rows: Rows) -> dict[int, list[Branch]]:
        """One token for each sequence; at first, `n` tokens for the only one."""
        self._proposed = {
            seq_id: [self._next(sample, logits) for sample in self._of(seq_id)]
            for seq_id, logits in rows.items()
        }
        return {
            seq_id: [Branch(each.token, each.finish) for each in found]
            for seq_id, found in self._proposed.items()
        }

    def settle(self, new: Sequence[NewToken]) -> list[TokenEvent]:
        """Tokens join their samples; those that go on are known by the ids they got."""
        waiting = {seq_id: iter(found) for seq_id, found in self._proposed.items()}
        self._by_sequence, self._proposed = {}, {}
        events = []
        for token in new:
            each = next(waiting[token.parent_id])
            sample = each.sample
            sample.tokens.append(each.token)
            sample.stream, sample.finish = each.stream, each.finish
            if each.text:
                sample.pieces.append(each.text)
            if each.finish is None:
                self._by_sequence[token.seq_id] = sample
            events.append(TokenEvent(self._name, sample.index, each.token, each.text, each.finish))
        return events

    def completions(self, otherwise: str) -> tuple[Completion, ...]:
        """Every sample, by its number."""
        return tuple(
            Completion(each.index, tuple(each.tokens), "".join(each.pieces), each.finish or otherwise)
            for each in self._samples
        )

    def _of(self, seq_id: int) -> Sequence[_Sample]:
        sample = self._by_sequence.get(seq_id)
        return self._samples if sample is None else [sample]

    def _next(self, sample: _Sample, logits: Tensor) -> _Next:
        token = choose(logits, self._params, sample.index, len(sample.tokens))
        text, stream, decode = "", sample.stream, self._ending.decode
        finish = STOP if token in self._ending.tokens else None
        if finish is None and decode is not None:
            piece = stream.add(token, decode, self._params.stop)
            text, stream = piece.text, piece.stream
            finish = STOP if piece.stopped else None
        if finish is None and len(sample.tokens) + 1 == self._params.max_new_tokens:
            finish = LENGTH
        if finish is not None and decode is not None:
            text += stream.flush(decode)
        return _Next(sample, token, text, stream, finish)
