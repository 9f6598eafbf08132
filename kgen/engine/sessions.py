"""Several conversations at once: the next turn of each is asked as soon as the last one is answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from kgen.engine.chat import Conversation
from kgen.engine.engine import Engine
from kgen.engine.params import SamplingParams
from kgen.engine.request import GenerateRequest, RequestResult, TokenEvent


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that was answered. The first completion is the one the conversation goes on with."""

    session: int
    number: int
    prompt: tuple[int, ...]
    result: RequestResult


def converse(
    engine: Engine, conversations: Sequence[Conversation], params: SamplingParams
) -> Iterator[TokenEvent | Turn]:
    """Run all conversations to their ends. Requests are named (session, turn), both from 0; a turn comes
    after its tokens. The engine must have nothing else to do."""
    prompts: dict[tuple[int, int], list[int]] = {}

    def ask(session: int, number: int) -> None:
        prompt = conversations[session].ask()
        if prompt is not None:
            engine.submit(GenerateRequest((session, number), prompt, params))
            prompts[session, number] = prompt

    for session in range(len(conversations)):
        ask(session, 0)
    for event in engine.stream():
        if isinstance(event, TokenEvent):
            yield event
            continue
        name = session, number = cast(tuple[int, int], event.request_id)
        conversations[session].answer(event.completions[0])
        yield Turn(session, number, tuple(prompts.pop(name)), event)
        ask(session, number + 1)
