"""What goes into an engine and what comes out of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from kgen.engine.params import SamplingParams
from kgen.runtime import DEFAULT, Namespace


@dataclass(frozen=True, eq=False)
class GenerateRequest:
    """A prompt, as token ids, to be continued.

    `namespace`: only requests of one namespace share KV. `insert`: whether its KV may serve later requests.
    `priority`: higher goes first where the scheduler's order is by priority.
    """

    request_id: Hashable
    prompt: Sequence[int] = field(repr=False)
    params: SamplingParams = field(default_factory=SamplingParams)
    namespace: Namespace = DEFAULT
    priority: int = 0
    insert: bool = True


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A token of continuation `index` of a request, and the text that became certain with it: whole
    characters only, perhaps none. `finish`: why the continuation ends with it, or None."""

    request_id: Hashable
    index: int
    token: int
    text: str
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A continuation: its new tokens, an end mark included, its text without one, and why it ended: "stop",
    "length" or "abort". `score`: of a beam, the sum of its log-probabilities over its penalised length."""

    index: int
    tokens: tuple[int, ...]
    text: str
    finish: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class RequestResult:
    """A request that has ended. `cached_tokens`: of its prompt, whose KV was reused. Times are in seconds on
    the engine's clock; `first_token` is None where none came.

    Completions are in order of their index; those of a beam search, best first.
    """

    request_id: Hashable
    completions: tuple[Completion, ...]
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    arrived: float
    first_token: float | None
    finished: float


Event = TokenEvent | RequestResult
