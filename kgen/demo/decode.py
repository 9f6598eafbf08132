"""Greedy decoding of a batch of prompts, twice: the stock model, and the same model on kgen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kgen.integrations.transformers import NAME, cache_argument

Prompts = Sequence[Sequence[int]]
OnTokens = Callable[[Sequence[int]], None]
"""Called after every step with the new token of each prompt."""


@dataclass(frozen=True)
class Decoded:
    """tokens: [prompt][step]; logits: one [prompts, vocabulary] float32 tensor a step. The first
    step belongs to the prefill, the others to the decoding."""

    tokens: Sequence[Sequence[int]]
    logits: Sequence[torch.Tensor]
    prefill_tokens: int
    prefill_seconds: float
    decode_seconds: float

    @property
    def decode_rate(self) -> float:
        """Tokens a second over the decode steps, all prompts together."""
        return len(self.tokens) * (len(self.logits) - 1) / self.decode_seconds

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second."""
        return self.prefill_tokens / self.prefill_seconds


@dataclass
class _Recorder:
    """Takes the logits of each step, picks the greedy tokens, keeps the time."""

    on_tokens: OnTokens
    logits: list[torch.Tensor] = field(default_factory=list)
    steps: list[list[int]] = field(default_factory=list)
    times: list[float] = field(default_factory=lambda: [time.perf_counter()])

    def step(self, logits: torch.Tensor) -> list[int]:
        self.logits.append(logits)
        self.steps.append(logits.argmax(-1).tolist())
        self.times.append(time.perf_counter())
        self.on_tokens(self.steps[-1])
        return self.steps[-1]

    def result(self, prompts: Prompts) -> Decoded:
        tokens = [list(column) for column in zip(*self.steps, strict=True)]
        start, first, *_, end = self.times
        return Decoded(tokens, self.logits, sum(map(len, prompts)), first - start, end - first)


@torch.inference_mode()
def decode_stock(model: Any, prompts: Prompts, steps: int, on_tokens: OnTokens) -> Decoded:
    """The model as it comes: torch's attention, its own cache, prompts padded on the left."""
    from transformers import DynamicCache

    name = cache_argument(model)
    model.set_attn_implementation("sdpa")
    widest = max(map(len, prompts))
    ids = torch.tensor([[0] * (widest - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (widest - len(p)) + [1] * len(p) for p in prompts])
    cache = DynamicCache(config=model.config)
    recorder = _Recorder(on_tokens)
    for _ in range(steps):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        out = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{name: cache},
            logits_to_keep=1,
        )
        ids = torch.tensor(recorder.step(out.logits[:, -1]))[:, None]
        mask = torch.cat([mask, mask.new_ones(len(prompts), 1)], 1)
    return recorder.result(prompts)


@torch.inference_mode()
def decode_paged(model: Any, prompts: Prompts, steps: int, cache: Any, on_tokens: OnTokens) -> Decoded:
    """The model on kgen: KV in the pages of `cache` (a PagedCache), prompts packed, not padded."""
    name = cache_argument(model)
    model.set_attn_implementation(NAME)
    recorder = _Recorder(on_tokens)
    new: Prompts = prompts
    for _ in range(steps):
        lengths = [len(tokens) for tokens in new]
        positions = cache.plan(lengths)
        ids = torch.tensor([[token for tokens in new for token in tokens]])
        last = torch.tensor(lengths).cumsum(0) - 1
        out = model(
            input_ids=ids,
            position_ids=positions,
            use_cache=True,
            **{name: cache},
            logits_to_keep=last,
        )
        new = [[token] for token in recorder.step(out.logits[0])]
    return recorder.result(prompts)
