"""A queue of requests through the scheduler, without a model, and what pages waste.

As in reservation.py, means are over the steps in which requests wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgen.paper.reservation import Use
from kgen.replay.traces import TraceRequest
from kgen.runtime import BlockManager, Branch, PagePool, Request, Scheduler, SchedulerConfig

LENGTHS_AT_ONCE = 1 << 20


def page(requests: Sequence[TraceRequest], block_size: int, budget: int) -> Use | None:
    """Send requests through `budget` slots in pages of `block_size`, a whole prompt in one step. None when
    none ever waits."""
    pool = PagePool(budget // block_size)
    manager = BlockManager(pool, block_size, watermark=0.0, check=False)
    config = SchedulerConfig(max_batch_tokens=2 * budget, max_sequences=max(1, pool.num_pages), order="fcfs")
    scheduler = Scheduler(manager, config, check=False)
    for number, request in enumerate(requests):
        prompt = np.full(request.prompt_tokens, number, np.int32)
        scheduler.submit(Request(number, prompt, request.output_tokens))
    steps = useful = held = batch = 0
    while scheduler.has_work:
        plan = scheduler.schedule()
        if not scheduler.num_waiting:
            break
        steps += 1
        useful += sum(table.length for table in manager.tables.values())
        held += (pool.num_pages - pool.num_free) * block_size
        batch += len(manager.tables)
        scheduler.commit({seq_id: (Branch(0),) for seq_id in plan.sampled})
    if not steps:
        return None
    slots = pool.num_pages * block_size * steps
    return Use(
        scheme=f"pages of {block_size}",
        useful=useful / slots,
        later=0.0,
        never=(held - useful) / slots,
        free=1 - held / slots,
        batch=batch / steps,
    )


def tail_waste(requests: Sequence[TraceRequest], block_size: int) -> tuple[float, float]:
    """Unused slots of the last page, in every step of every request: mean tokens, and their part of all slots
    of its pages."""
    prompts = np.array([request.prompt_tokens for request in requests], np.int64)
    outputs = np.array([request.output_tokens for request in requests], np.int64)
    unused = filled = 0
    for piece in np.array_split(np.arange(len(requests)), 1 + int(outputs.sum()) // LENGTHS_AT_ONCE):
        counts = outputs[piece]
        firsts = np.repeat(np.cumsum(counts) - counts, counts)
        lengths = np.repeat(prompts[piece], counts) + np.arange(int(counts.sum())) - firsts
        unused += int((-lengths % block_size).sum())
        filled += int(lengths.sum())
    return unused / int(outputs.sum()), unused / (unused + filled)
