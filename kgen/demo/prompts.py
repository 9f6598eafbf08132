"""What the demo asks the model: sessions that begin alike, as those of one service do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kgen.engine import Chat, Conversation, TokenChat

ARTICLE = """\
A language model that writes a text one word at a time looks back at everything it has read so far.
For every token it keeps two short vectors in each of its layers: a key, by which the token can be
found, and a value, which is what the token has to say. Together they are called the KV cache. The
cache saves a great deal of work, because the keys and values of old tokens never change, but it
takes a great deal of memory. A server that answers many people at once holds one cache for every
conversation, and the caches grow with each word.

Early servers reserved the memory of a whole conversation before it began. A conversation may last
for eight thousand tokens, or it may end after twenty, and nobody can tell in advance. So most of
the reserved memory was never used, and what was left between the reservations was in pieces too
small for the next conversation. It was common that three quarters of the memory of an expensive
machine held nothing at all.

The cure was found in an old idea of operating systems. A computer does not give a program one long
stretch of memory. It gives out small pages of one fixed size, anywhere in the machine, and keeps a
table that says where each page of the program is. The same can be done for the cache: its memory
is cut into pages of sixteen tokens, a conversation receives a page when it needs one, and a table
lists its pages in order. Nothing is reserved in advance, no gap is too small, and at most one page
of every conversation is partly empty. Two conversations that begin with the same words can even
share the pages of that beginning, until one of them goes on in another way and needs a copy.
"""

SYSTEM = f"You answer questions about a text in two short sentences. The text:\n\n{ARTICLE}"

SESSIONS: Sequence[Sequence[str]] = (
    ("What is the KV cache?", "Why does it save work?", "And what does it cost?"),
    ("How did early servers use memory?", "What was wrong with it?", "How much was wasted?"),
    ("Which old idea was the cure?", "How large is a page?", "When does a conversation get one?"),
    ("What is gravity?", "Is that in the text?", "Write a rhyme about pages."),
)


def conversations(tokenizer: Any | None, vocabulary: int, end_tokens: frozenset[int]) -> list[Conversation]:
    """The sessions, from their beginnings; in seeded random ids where there is no tokenizer."""
    if tokenizer is not None:
        return [Chat(tokenizer, turns, system=SYSTEM, end_tokens=end_tokens) for turns in SESSIONS]
    draw = random.Random(7)
    beginning = _ids(draw, vocabulary, 400)
    return [
        TokenChat(beginning, [_ids(draw, vocabulary, 20 + 7 * session) for _ in turns])
        for session, turns in enumerate(SESSIONS)
    ]


def _ids(draw: random.Random, vocabulary: int, count: int) -> list[int]:
    return [draw.randrange(3, vocabulary) for _ in range(count)]
