"""What a prefix is looked up by: token ids, inside a namespace.

Token ids are kept as the bytes of native 32-bit integers, because comparing, slicing and hashing bytes
is what Python does fastest. A key is made once, when a request arrives.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kgen.runtime.errors import fault

TOKEN_BYTES = 4

Tokens = Sequence[int] | npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Namespace:
    """What separates equal token ids whose KV differs. Each kind has a field of its own, so that an adapter
    and a salt of one name are two namespaces; `media` holds a key for each image or sound, in order."""

    adapter: str | None = None
    salt: str | None = None
    media: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"adapter={self.adapter}"] if self.adapter is not None else []
        parts += [f"salt={self.salt}"] if self.salt is not None else []
        parts += [f"media={'+'.join(self.media)}"] if self.media else []
        return ", ".join(parts) or "default"


DEFAULT = Namespace()


@dataclass(frozen=True, slots=True)
class Key:
    """Token ids as bytes, and their namespace. `len()` counts tokens."""

    data: bytes
    namespace: Namespace = DEFAULT

    @staticmethod
    def of(tokens: Tokens, namespace: Namespace = DEFAULT) -> Key:
        """A key of token ids; raises K701 for one that is no 32-bit integer."""
        return Key(token_bytes(tokens), namespace)

    def __len__(self) -> int:
        return len(self.data) // TOKEN_BYTES


def token_bytes(tokens: Tokens) -> bytes:
    """Token ids as bytes of native int32; raises K701 for what is no such id."""
    if isinstance(tokens, np.ndarray):
        return _array_bytes(tokens)
    try:
        return array("i", tokens).tobytes()
    except (TypeError, OverflowError) as error:
        raise fault("K701", f"token ids are 32-bit integers ({error})") from None


def tokens_of(data: bytes) -> npt.NDArray[np.int32]:
    """The token ids of such bytes, as a read-only array over them."""
    return np.frombuffer(data, np.int32)


def _array_bytes(tokens: npt.NDArray[np.integer]) -> bytes:
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
        raise fault("K701", f"token ids are a list of integers, found {tokens.dtype} of {tokens.shape}")
    narrow = tokens.astype(np.int32)
    if tokens.dtype != np.int32 and not np.array_equal(narrow, tokens):
        raise fault("K701", "token ids are 32-bit integers; one of these is larger")
    return narrow.tobytes()
