"""What an engine has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Totals. Of the requests that ended: `prompt_tokens`, and `reused_tokens` of them, whose KV was there
    already. `prefill_tokens` and `decode_tokens` are rows computed, those of steps that were computed again
    too. `prefill_seconds`: of steps with rows of a prompt, decode rows beside them included; `decode_seconds`
    of the others, which computed `pure_decode_tokens`."""

    requests: int
    prompt_tokens: int
    reused_tokens: int
    new_tokens: int
    steps: int
    prefill_tokens: int
    decode_tokens: int
    pure_decode_tokens: int
    prefill_seconds: float
    decode_seconds: float
    preemptions: int
    copied_blocks: int
    num_blocks: int
    held_blocks: int
    cached_blocks: int
    peak_blocks: int

    @property
    def hit_rate(self) -> float:
        """The part of all prompt tokens that was reused."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens computed a second."""
        return self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens a second in steps that only decode, all sequences together."""
        return self.pure_decode_tokens / self.decode_seconds if self.decode_seconds else 0.0


@dataclass(slots=True)
class Counts:
    """The running counts behind `EngineStats` that nobody else keeps."""

    requests: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    pure_decode_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    peak_blocks: int = 0
