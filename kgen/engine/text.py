"""Text from tokens, one by one: never half a character, never the beginning of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Decode = Callable[[Sequence[int]], str]
"""Token ids to text, without special tokens and without tidying of spaces."""

BROKEN = "\ufffd"


@dataclass(frozen=True, slots=True)
class Piece:
    """What became certain: text, whether a stop string came behind it, and the stream as it goes on."""

    text: str
    stopped: bool
    stream: TextStream


@dataclass(frozen=True, slots=True)
class TextStream:
    """The end of a growing text. `tokens`: those whose text is not certain, behind `context` tokens before
    them, without which their own text (a leading space) would differ. `held`: text that may begin a stop
    string. Immutable: a step that fails leaves it as it was."""

    tokens: tuple[int, ...] = ()
    context: int = 0
    held: str = ""

    def add(self, token: int, decode: Decode, stop: Sequence[str]) -> Piece:
        """The stream with one more token."""
        tokens = (*self.tokens, token)
        whole = decode(tokens)
        if whole.endswith(BROKEN):
            return Piece("", False, TextStream(tokens, self.context, self.held))
        new = self.held + whole[len(decode(tokens[: self.context])) :]
        rest = tokens[self.context :]
        at = min((place for text in stop if (place := new.find(text)) >= 0), default=-1)
        if at >= 0:
            return Piece(new[:at], True, TextStream())
        held = _may_begin(new, stop)
        certain = new[: len(new) - held]
        return Piece(certain, False, TextStream(rest, len(rest), new[len(certain) :]))

    def flush(self, decode: Decode) -> str:
        """What is left when no token follows, as it is."""
        return self.held + decode(self.tokens)[len(decode(self.tokens[: self.context])) :]


def _may_begin(text: str, stop: Sequence[str]) -> int:
    """How many of the last characters are the beginning of a stop string, at most."""
    most = min(len(text), max(map(len, stop), default=0) - 1)
    return next((n for n in range(most, 0, -1) if any(s.startswith(text[-n:]) for s in stop)), 0)
