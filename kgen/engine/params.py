"""How tokens are chosen: greedy, sampled or by beam search, and when a text ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kgen.engine.errors import fault


@dataclass(frozen=True)
class SamplingParams:
    """`max_new_tokens`: tokens a continuation may get. `temperature`: 0 takes the likeliest token. `top_p`:
    of the likeliest tokens so many as have this probability together. `top_k`: at most so many; 0 all.

    `n`: samples of one prompt, each drawn by `seed` and its own number, whatever else is computed beside
    them. `beams`: 0, or the width of a beam search, whose results are ordered by the sum of
    log-probabilities over length ** `length_penalty`.

    `stop`: strings that end a text, not part of it. `stop_tokens`: ids that end it, beside the model's own
    end marks. `ignore_eos`: go on behind those. Raises K801 for values that mean nothing, alone or together.
    """

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    n: int = 1
    beams: int = 0
    length_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        for name, least in (("max_new_tokens", 1), ("n", 1), ("top_k", 0), ("beams", 0)):
            _whole(name, getattr(self, name), least)
        _whole("seed", self.seed, None)
        _number("temperature", self.temperature, self.temperature >= 0, "0 or more")
        _number("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1")
        _number("length_penalty", self.length_penalty, True, "a finite number")
        for token in self.stop_tokens:
            _whole("a stop token", token, 0)
        if isinstance(self.stop, str) or not all(isinstance(text, str) and text for text in self.stop):
            raise fault("K801", f"stop is {self.stop!r}, expected a tuple of strings that are not empty")
        self._check_together()

    @property
    def width(self) -> int:
        """Sequences at once."""
        return self.beams or self.n

    @property
    def greedy(self) -> bool:
        """Whether each token is the likeliest."""
        return self.temperature == 0 and not self.beams

    def _check_together(self) -> None:
        if self.n > 1 and self.beams:
            raise fault("K801", f"n is {self.n} and beams {self.beams}", "a beam search gives all its beams")
        if self.n > 1 and self.temperature == 0:
            message = f"n is {self.n}, but at temperature 0 all samples are the same"
            raise fault("K801", message, "set a temperature above 0, or beams")
        if self.beams and self.temperature > 0:
            message = f"beams is {self.beams} and temperature {self.temperature}"
            raise fault("K801", message, "a beam search takes the likeliest tokens: leave temperature at 0")
        if self.beams and self.stop:
            raise fault("K801", "a beam search ends at tokens, not at strings", "use stop_tokens")


def _whole(name: str, value: object, least: int | None) -> None:
    wrong = not isinstance(value, int) or isinstance(value, bool)
    if wrong or (least is not None and value < least):  # type: ignore[operator]
        expected = "a whole number" + ("" if least is None else f" of at least {least}")
        raise fault("K801", f"{name} is {value!r}, expected {expected}")


def _number(name: str, value: float, holds: bool, expected: str) -> None:
    if not holds or not math.isfinite(value):
        raise fault("K801", f"{name} is {value!r}, expected {expected}")
