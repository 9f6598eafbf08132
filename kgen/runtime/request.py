"""What is asked of the scheduler, and how it is set up."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from kgen.diagnostics import choice_hint
from kgen.runtime.errors import fault, whole
from kgen.runtime.keys import DEFAULT, Namespace, Tokens, token_bytes

ORDERS = ("longest-prefix", "hit-ratio", "dfs-weight", "fcfs", "priority")
PREEMPTIONS = ("recompute", "swap")


@dataclass(frozen=True, eq=False)
class Request:
    """A prompt to continue. `width`: sequences at once, parallel samples or beams. `priority`: higher goes
    first under the order `priority`, and stays cached longer under that policy. `insert`: whether its KV may
    serve later requests. Raises K706 for an empty prompt and K701 for sizes that are none."""

    request_id: Hashable
    prompt: Tokens = field(repr=False)
    max_new_tokens: int
    width: int = 1
    priority: int = 0
    namespace: Namespace = DEFAULT
    insert: bool = True
    data: bytes = field(init=False, repr=False)  # the prompt as bytes of int32

    def __post_init__(self) -> None:
        if not len(self.prompt):
            raise fault("K706", f"request {self.request_id!r} has an empty prompt")
        whole("max_new_tokens", self.max_new_tokens, 1)
        whole("width", self.width, 1)
        object.__setattr__(self, "data", token_bytes(self.prompt))


@dataclass(frozen=True)
class SchedulerConfig:
    """`max_batch_tokens`: query rows in a step. `max_sequences`: sequences with KV in use at once.
    `max_chunk`: rows of one prefill in a step (None: no limit of its own). `order`: who is admitted first.

    `max_bypass`: how many later arrivals may be admitted ahead of a waiting request before it goes first.
    `order_window`: how many of the oldest waiting requests are put in order by the cache; later ones stay
    behind them.
    `share_min`: tokens another running prompt must be about to store for a request to wait for them.
    `preemption`: what becomes of the KV of a sequence that gives way; swapping falls back to recomputing.
    """

    max_batch_tokens: int = 2048
    max_sequences: int = 256
    max_chunk: int | None = None
    order: str = "longest-prefix"
    max_bypass: int = 64
    order_window: int = 128
    share_min: int = 32
    preemption: str = "recompute"

    def __post_init__(self) -> None:
        for name in ("max_batch_tokens", "max_sequences", "order_window", "share_min"):
            whole(name, getattr(self, name), 1)
        whole("max_bypass", self.max_bypass)
        if self.max_chunk is not None:
            whole("max_chunk", self.max_chunk, 1)
        if self.max_batch_tokens < self.max_sequences:
            message = (
                f"{self.max_batch_tokens} rows a step cannot hold {self.max_sequences} decoding sequences"
            )
            raise fault("K701", message, hint="raise max_batch_tokens or lower max_sequences")
        for name, choices in (("order", ORDERS), ("preemption", PREEMPTIONS)):
            choice = getattr(self, name)
            if choice not in choices:
                raise fault("K701", f"no {name} is named '{choice}'", choice_hint(str(choice), choices))
