"""Token ids for a trace: equal where it says that content is equal, and nowhere else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kgen.diagnostics import Diagnostic, KgenError
from kgen.replay.traces import HASH_TOKENS, TraceRequest

LAST_ID = 2**31


class Content:
    """Prompts and outputs. What has a hash id has ids from 0 on; everything else gets ids below 0 that never
    come twice."""

    def __init__(self) -> None:
        self._used = 0

    def prompt(self, request: TraceRequest) -> npt.NDArray[np.int32]:
        """The prompt's token ids. Raises KgenError (K709) when there are no more ids."""
        if request.hash_ids is None:
            self._used += request.prompt_tokens
            self._require_ids()
            return np.arange(-self._used, request.prompt_tokens - self._used, dtype=np.int32)
        starts = np.array(request.hash_ids, np.int32) * np.int32(HASH_TOKENS)
        tokens: npt.NDArray[np.int32] = np.repeat(starts, HASH_TOKENS)[: request.prompt_tokens]
        tokens += np.arange(request.prompt_tokens, dtype=np.int32) % np.int32(HASH_TOKENS)
        return tokens

    def output(self) -> int:
        """One generated token."""
        self._used += 1
        self._require_ids()
        return -self._used

    def _require_ids(self) -> None:
        if self._used > LAST_ID:
            raise KgenError(Diagnostic("K709", f"the trace has more than {LAST_ID} tokens of its own"))
