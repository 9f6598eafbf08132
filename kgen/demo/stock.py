"""The sessions through the model as it comes: torch's attention, its own cache, whole prompts every turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from kgen.engine import Completion, Conversation, Decode
from kgen.integrations.transformers import cache_argument

Name = tuple[int, int]
"""A session and the number of its turn, both from 0."""

OnToken = Callable[[Name, int], None]
"""Called with each token as it comes."""

Answers = Mapping[Name, Sequence[int]]
"""The tokens of each answer, an end mark included."""


@dataclass
class Stock:
    """Answers; logits: for each turn one [sessions, vocabulary] float32 tensor a step; and what it took.
    `decode_tokens` came from the steps that `decode_seconds` counts."""

    answers: dict[Name, Sequence[int]] = field(default_factory=dict)
    logits: list[list[torch.Tensor]] = field(default_factory=list)
    prompt_tokens: int = 0
    decode_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Everything."""
        return self.prefill_seconds + self.decode_seconds


def run_stock(
    model: Any,
    sessions: Sequence[Conversation],
    steps: int,
    end_tokens: frozenset[int],
    decode: Decode | None,
    on_token: OnToken,
) -> Stock:
    """Every session greedily, turn by turn, the prompts of a turn as one batch; all have as many turns."""
    model.set_attn_implementation("sdpa")
    found = Stock()
    while prompts := [prompt for each in sessions if (prompt := each.ask()) is not None]:
        turn = len(found.logits)
        rows = _decode(model, prompts, steps, found, partial(_of_turn, on_token, turn))
        for session, row in enumerate(rows):
            stop = next((place for place, token in enumerate(row) if token in end_tokens), steps - 1)
            tokens = tuple(row[: stop + 1])
            found.answers[session, turn] = tokens
            text = decode(tokens) if decode is not None else ""
            sessions[session].answer(Completion(0, tokens, text, "stop"))
    return found


def _of_turn(on_token: OnToken, turn: int, session: int, token: int) -> None:
    on_token((session, turn), token)


@torch.inference_mode()
def _decode(
    model: Any,
    prompts: Sequence[Sequence[int]],
    steps: int,
    found: Stock,
    on_token: Callable[[int, int], None],
) -> list[list[int]]:
    """The next `steps` tokens of each prompt, padded on the left to the longest."""
    from transformers import DynamicCache

    name = cache_argument(model)
    widest = max(map(len, prompts))
    ids = torch.tensor([[0] * (widest - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (widest - len(p)) + [1] * len(p) for p in prompts])
    cache = DynamicCache(config=model.config)
    logits: list[torch.Tensor] = []
    begin = middle = time.perf_counter()
    for step in range(steps):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{name: cache},
            logits_to_keep=1,
        )
        logits.append(out.logits[:, -1])
        ids = logits[-1].argmax(-1, keepdim=True)
        mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], 1)
        for session, token in enumerate(ids[:, 0].tolist()):
            on_token(session, token)
        if step == 0:
            middle = time.perf_counter()
    found.logits.append(logits)
    found.prompt_tokens += sum(map(len, prompts))
    found.decode_tokens += len(prompts) * (steps - 1)
    found.prefill_seconds += middle - begin
    found.decode_seconds += time.perf_counter() - middle
    return [list(column) for column in zip(*(row.argmax(-1).tolist() for row in logits), strict=True)]
