"""What ran: the launches of each kernel during a piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """A dict that, when the block ends, holds the launches inside it by variant name."""
    from kgen import ops

    found: dict[str, int] = {}
    before = ops.dispatcher().calls()
    yield found
    for name, count in ops.dispatcher().calls().items():
        if count > before.get(name, 0):
            found[name] = count - before.get(name, 0)
