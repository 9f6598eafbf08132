"""What the demo asks the model: short and long prompts in one batch, as a server meets them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

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

The price is paid by the program that computes attention. It may no longer read the keys from one
end to the other. It has to look up page after page in the table, and it should still be as fast
as if the keys lay side by side. When the conversation is long and the server has few others to
answer, the work on one conversation is cut into parts, each part is computed on its own, and the
results are put together again. That can be done without any error, because every part also tells
how much weight it had.

The second lesson is about time. In each step a server reads every key and every value of every
conversation once, and does very little arithmetic with them. So the speed of the step is the speed
at which memory can be read, and a program that reads the same key twice is half as fast as it
could be. Modern models let several query heads share the same keys. A good program reads them once
for the whole group of heads.
"""

QUESTIONS: Sequence[tuple[str, str]] = (
    ("short", "What is gravity?"),
    ("list", "Give me five tips for learning to play the piano."),
    ("story", "Write a short story about a lighthouse keeper who finds a message in a bottle."),
    ("article", f"{ARTICLE}\nSummarise the text above in a few sentences."),
)


def encode(tokenizer: Any | None, vocabulary: int) -> list[list[int]]:
    """The prompts as token ids; seeded random ids of the same lengths where there is no tokenizer."""
    if tokenizer is None:
        draw = random.Random(7)
        return [[draw.randrange(3, vocabulary) for _ in range(n)] for n in (34, 41, 48, 700)]
    chats = [[{"role": "user", "content": text}] for _, text in QUESTIONS]
    return [tokenizer.apply_chat_template(c, add_generation_prompt=True)["input_ids"] for c in chats]
