"""Two prompts with one beginning, in one step: the later one waits for the KV of the first instead of
computing it again. It is matched only once that KV is written and in the tree."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.runtime.job import Job
from kgen.runtime.keys import TOKEN_BYTES
from kgen.runtime.radix import RadixCache


def worth_waiting(job: Job, running: Iterable[Job], cache: RadixCache | None, share_min: int) -> bool:
    """Whether a running prefill is about to store `share_min` tokens more of this job's prompt than are
    cached, or all that could be used of it."""
    if cache is None:
        return False
    size = cache.page_size
    usable = (len(job.key) - 1) // size * size
    cached = cache.probe(job.key, usable).length
    wanted = min(-(-max(share_min, 1) // size) * size, usable - cached)
    if wanted <= 0:
        return False
    beginning = job.key.data[: (cached + wanted) * TOKEN_BYTES]
    return any(_will_store(other, beginning, job) for other in running)


def _will_store(other: Job, beginning: bytes, job: Job) -> bool:
    if not other.request.insert or other.request.namespace != job.request.namespace:
        return False
    current = other.current
    if current is None or current.goal * TOKEN_BYTES < len(beginning):
        return False
    return current.data.startswith(beginning)
