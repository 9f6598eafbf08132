"""A prefix cache that knows whole blocks by a hash of all tokens up to their end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from kgen.runtime.keys import TOKEN_BYTES


class BlockHashes:
    """Which blocks have been stored. A block that is not full has no hash."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._stored: set[bytes] = set()

    def store(self, data: bytes) -> None:
        """Remember the full blocks of a prompt (int32 bytes)."""
        self._stored.update(self._hashes(data))

    def hit(self, data: bytes) -> int:
        """Tokens of a prompt, from its start, whose blocks are stored."""
        found = 0
        for each in self._hashes(data):
            if each not in self._stored:
                break
            found += self.block_size
        return found

    def _hashes(self, data: bytes) -> Iterator[bytes]:
        size = self.block_size * TOKEN_BYTES
        chain = hashlib.sha256()
        for start in range(0, len(data) - size + 1, size):
            chain.update(data[start : start + size])
            yield chain.digest()
