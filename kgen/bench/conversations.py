"""A seeded trace of conversations: sessions that share a few long prompts, each request carrying the whole
conversation so far and adding a question and an answer to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VOCABULARY = 50_000
SHARED_PROMPTS = 10


@dataclass(frozen=True)
class Turn:
    """One request: the tokens it comes with, and all of them once it is answered."""

    prompt: npt.NDArray[np.int32]
    whole: npt.NDArray[np.int32]


def conversations(
    requests: int, sessions: int, prompt_tokens: int = 3000, longest: int = 300, seed: int = 1
) -> list[Turn]:
    """`requests` turns of random sessions. Ten prompts of `prompt_tokens` are shared among the sessions;
    questions and answers are 50 to `longest` tokens."""
    draw = np.random.default_rng(seed)

    def tokens(count: int) -> npt.NDArray[np.int32]:
        return draw.integers(0, VOCABULARY, count, dtype=np.int32)

    shared = [tokens(prompt_tokens) for _ in range(SHARED_PROMPTS)]
    history = [shared[session % SHARED_PROMPTS] for session in range(sessions)]
    turns = []
    for _ in range(requests):
        session = int(draw.integers(sessions))
        prompt = np.concatenate([history[session], tokens(int(draw.integers(50, longest)))])
        history[session] = np.concatenate([prompt, tokens(int(draw.integers(50, longest)))])
        turns.append(Turn(prompt, history[session]))
    return turns
