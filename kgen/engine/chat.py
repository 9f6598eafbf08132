"""Conversations: each turn's prompt is all that was said before, token for token, and what is asked now.

Token for token, because the KV of an answer can only be reused under the ids it was computed for. A text
that is tokenised again may come out in other ids; so the ids of earlier turns are kept, and only what is new
is tokenised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kgen.engine.errors import fault
from kgen.engine.request import Completion
from kgen.engine.text import Decode


class Tokenizer(Protocol):
    """What is asked of a tokenizer: those of transformers are one."""

    chat_template: Any

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""
        ...

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        """The text of token ids."""
        ...

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **options: Any) -> str:
        """A conversation as the text a model was trained on."""
        ...


def decoder(tokenizer: Tokenizer) -> Decode:
    """`Decode` by a tokenizer: special tokens have no text, and spaces stay as they are."""

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    return decode


class Conversation(Protocol):
    """A session of several turns."""

    def ask(self) -> list[int] | None:
        """The prompt of the next turn; None when there is none."""
        ...

    def answer(self, completion: Completion) -> None:
        """What was answered to it."""
        ...


class Chat:
    """Turns of a user, under a system message if one is given, in the form of the tokenizer's template.

    `end_tokens`: end marks, which the template puts itself. Raises K805 for a tokenizer without a template.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        turns: Iterable[str],
        *,
        system: str | None = None,
        end_tokens: frozenset[int] = frozenset(),
    ) -> None:
        if not tokenizer.chat_template:
            raise fault("K805", "the model's tokenizer has no chat template", "continue plain text instead")
        self._tokenizer, self._end_tokens = tokenizer, end_tokens
        self._turns = iter(tuple(turns))
        self._messages = [{"role": "system", "content": system}] if system is not None else []
        self._text = ""
        self._ids: list[int] = []

    def ask(self) -> list[int] | None:
        """The whole conversation up to the next turn, as ids; those of earlier turns are the same again."""
        turn = next(self._turns, None)
        if turn is None:
            return None
        self._messages.append({"role": "user", "content": turn})
        text = self._tokenizer.apply_chat_template(self._messages, add_generation_prompt=True, tokenize=False)
        # A template may rewrite what was said before, as some cut old thoughts; then all of it is new.
        known = text.startswith(self._text)
        new = self._tokenizer.encode(text[len(self._text) if known else 0 :], add_special_tokens=False)
        self._ids = [*self._ids, *new] if known else new
        self._text = text
        return self._ids

    def answer(self, completion: Completion) -> None:
        """The model's turn."""
        ids = completion.tokens
        ends = bool(ids) and ids[-1] in self._end_tokens
        self._ids = [*self._ids, *(ids[:-1] if ends else ids)]
        self._text += completion.text
        self._messages.append({"role": "assistant", "content": completion.text})


class TokenChat:
    """A conversation in token ids: a beginning, and what each turn adds to it and to the answers."""

    def __init__(self, beginning: Sequence[int], turns: Iterable[Sequence[int]]) -> None:
        self._ids = list(beginning)
        self._turns = iter(tuple(turns))

    def ask(self) -> list[int] | None:
        """All ids up to the next turn."""
        turn = next(self._turns, None)
        if turn is None:
            return None
        self._ids = [*self._ids, *turn]
        return self._ids

    def answer(self, completion: Completion) -> None:
        """The model's turn."""
        self._ids = [*self._ids, *completion.tokens]
