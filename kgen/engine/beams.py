"""Beam search: of all continuations of all beams the likeliest go on, and those that end compete by score.

In each step, twice as many candidates as beams are taken (more where there are several end marks), so that as
many beams as before can go on even when all of the best end. Only a candidate among the best ends as a
result, and the search is over once the best beam, were it to end now, could not replace the worst result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import torch

from kgen.engine.errors import fault
from kgen.engine.params import SamplingParams
from kgen.engine.request import Completion, TokenEvent
from kgen.engine.tracks import LENGTH, STOP, Ending, Rows
from kgen.runtime import Branch, NewToken


@dataclass(frozen=True, slots=True)
class _Beam:
    """A continuation, the sequence it came from, and the sum of its log-probabilities."""

    parent: int
    tokens: tuple[int, ...]
    total: float
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """Beams that go on, best first, with their sequences; and the best that have ended, by score."""

    beams: tuple[tuple[int, _Beam], ...] = ()
    ended: tuple[tuple[float, _Beam], ...] = ()


class BeamTrack:
    """A beam search of one request."""

    def __init__(self, params: SamplingParams, ending: Ending) -> None:
        self._params, self._ending = params, ending
        self._now = _Search()
        self._going: list[_Beam] = []
        self._ended: tuple[tuple[float, _Beam], ...] = ()

    def propose(self, rows: Rows) -> dict[int, list[Branch]]:
        """The beams that go on and those that end, by the sequence they come from."""
        before = self._now.beams or tuple((seq_id, _Beam(seq_id, (), 0.0)) for seq_id in rows)
        found = self._candidates(before, rows)
        width = self._params.beams
        ending = [beam for beam in found[:width] if beam.finish]
        scored = [*self._now.ended, *((self._score(beam), beam) for beam in ending)]
        self._ended = tuple(sorted(scored, key=lambda each: -each[0])[:width])
        going = [beam for beam in found if beam.finish is None][:width]
        self._going = going if going and self._can_improve(going[0]) else []
        # In the order of the sequences, so that what is confirmed can be told apart again.
        self._going.sort(key=attrgetter("parent"))
        branches: dict[int, list[Branch]] = {seq_id: [] for seq_id in rows}
        # What ends does so in the search alone, but for the last step: there it lets the cache keep its KV.
        for beam in self._going or ending:
            branches[beam.parent].append(Branch(beam.tokens[-1], beam.finish))
        return branches

    def settle(self, new: Sequence[NewToken]) -> list[TokenEvent]:
        """Beams get the ids of their sequences. Nothing is told before the search is over."""
        ids = {
            parent: [token.seq_id for token in tokens]
            for parent, tokens in groupby(sorted(new, key=attrgetter("parent_id")), attrgetter("parent_id"))
        }
        named = [(ids[beam.parent].pop(0), beam) for beam in self._going]
        named.sort(key=lambda each: -each[1].total)
        self._now = _Search(tuple(named), self._ended)
        return []

    def completions(self, otherwise: str) -> tuple[Completion, ...]:
        """The best results, best first; where none has ended, the beams as they are."""
        found = self._now.ended or tuple((self._score(beam), beam) for _, beam in self._now.beams)
        return tuple(
            Completion(place, beam.tokens, self._text(beam), beam.finish or otherwise, score)
            for place, (score, beam) in enumerate(found)
        )

    def _candidates(self, before: Sequence[tuple[int, _Beam]], rows: Rows) -> list[_Beam]:
        logits = torch.stack([rows[seq_id] for seq_id, _ in before]).float()
        if not bool(torch.isfinite(logits.max())):
            raise fault(
                "K804", "the model gave logits that are not numbers", "its weights or its KV are damaged"
            )
        totals = torch.tensor([beam.total for _, beam in before], device=logits.device)
        sums = (torch.log_softmax(logits, -1) + totals[:, None]).flatten()
        count = max(2, 1 + len(self._ending.tokens)) * self._params.beams
        best = sums.topk(min(count, len(sums)))
        vocabulary = logits.shape[1]
        return [
            self._candidate(before[place // vocabulary], place % vocabulary, total)
            for place, total in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _candidate(self, before: tuple[int, _Beam], token: int, total: float) -> _Beam:
        seq_id, beam = before
        finish = STOP if token in self._ending.tokens else None
        if finish is None and len(beam.tokens) + 1 == self._params.max_new_tokens:
            finish = LENGTH
        return _Beam(seq_id, (*beam.tokens, token), total, finish)

    def _score(self, beam: _Beam) -> float:
        length: float = max(1, len(beam.tokens)) ** self._params.length_penalty
        return beam.total / length

    def _can_improve(self, best: _Beam) -> bool:
        return len(self._ended) < self._params.beams or self._score(best) > self._ended[-1][0]

    def _text(self, beam: _Beam) -> str:
        decode = self._ending.decode
        ends = beam.tokens and beam.tokens[-1] in self._ending.tokens
        return decode(beam.tokens[:-1] if ends else beam.tokens) if decode else ""
