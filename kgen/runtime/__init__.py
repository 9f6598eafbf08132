"""The runtime: KV memory, the radix prefix cache and the scheduler, without a model and without kernels.

    PagePool       who owns each page                    pages.py
    KVPool         the tensors behind the pages          kvpool.py
    KVScales       what 8-bit codes in them stand for    scales.py
    RadixCache     prefixes that are still in memory     radix.py over tree.py, node.py, order.py
    BlockManager   the pages of each sequence            blocks.py over tables.py, growth.py, swap.py
    Scheduler      what is computed in each step         scheduler.py over jobs.py, phases.py, committing.py

Nothing here starts a thread, reads a clock that was not handed in, or touches a device but through `KVPool`.

An engine is a loop over `Scheduler`:

    submit(Request)    a prompt waits for its turn; `width` sequences at most go on from it
    schedule()         a frozen `StepPlan`; the memory of all its rows is already arranged
    commit(results)    the plan was run; `results` gives the branches of each sequence in `plan.sampled`
    discard()          the plan was not run, or failed: everything in it is done again
    abort(id)          at any time, also between schedule() and commit(), whose results for it are ignored

Of a plan the engine does, in this order: `swap_out` (device page, host page), `swap_in` (host page, device
page), `copies` (source page, destination page), the last by `KVPool.copy`; then it writes the KV of each row
to its slots and attends to the first `row.seq_len` tokens of `row.pages`. A `PrefillChunk` is n tokens from
position `start` on, whose last row's logits are wanted if `samples`; a `DecodeRow` is one token, whose logits
are always wanted. An empty plan while `has_work` means that memory is held from outside, by a pin.

Results are `Branch(token, finish)`. One branch is plain decoding. `width` of them at the first token are
parallel samples, which share every page until they diverge. Beam search gives each beam as many as survive of
it, none to drop it, and no more than `width` that go on in all. A branch with `finish` ends its sequence with
that token; at `max_new_tokens` the scheduler ends it by itself, as "length". The sequences of one request
decode in the same steps, so that beams can be compared. `Outcome.tokens` says which sequence got which token
and from which parent; `Outcome.finished` holds the requests that have ended, with their outputs and times.

    >>> pool = PagePool(64)
    >>> manager = BlockManager(pool, 4, RadixCache(pool, 4))
    >>> scheduler = Scheduler(manager, SchedulerConfig(max_batch_tokens=16, max_sequences=4))
    >>> scheduler.submit(Request("a", [5, 6, 7, 8, 9, 10], max_new_tokens=3, width=2))
    >>> def run(plan):                          # a model that adds one, and samples 20 and 30 at first
    ...     first = {chunk.seq_id: [Branch(20), Branch(30)] for chunk in plan.prefills if chunk.samples}
    ...     return first | {row.seq_id: [Branch(row.token + 1)] for row in plan.decodes}
    >>> while scheduler.has_work:
    ...     plan = scheduler.schedule()
    ...     outcome = scheduler.commit(run(plan))
    ...     print(len(plan.prefills), len(plan.decodes), plan.copies, [new.token for new in outcome.tokens])
    1 0 () [20, 30]
    0 2 ((1, 2),) [21, 31]
    0 2 () [22, 32]
    >>> [output.tokens for output in outcome.finished[0].outputs]
    [(20, 21, 22), (30, 31, 32)]
    >>> pool.num_held, pool.num_available       # what is cached can be had again
    (0, 64)
"""

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.clock import Clock, ManualClock
from kgen.runtime.events import ClearedEvent, Event, RemovedEvent, StoredEvent
from kgen.runtime.keys import DEFAULT, Key, Namespace, token_bytes
from kgen.runtime.kvpool import KVPool, KVShape, num_blocks_for
from kgen.runtime.pages import CACHED, PagePool, Pages
from kgen.runtime.plan import (
    Branch,
    DecodeRow,
    Finished,
    NewToken,
    Outcome,
    Output,
    PrefillChunk,
    StepPlan,
)
from kgen.runtime.policies import POLICIES, Policy
from kgen.runtime.radix import RadixCache
from kgen.runtime.request import ORDERS, PREEMPTIONS, Request, SchedulerConfig
from kgen.runtime.results import Evicted, Lock, Match, Probe, Stored
from kgen.runtime.room import Room
from kgen.runtime.scales import FLOAT8, KVScales, scales_for
from kgen.runtime.scheduler import Scheduler
from kgen.runtime.stats import Stats
from kgen.runtime.tables import padded, pages_for, token_slots
from kgen.runtime.totals import Totals

__all__ = [
    "CACHED",
    "DEFAULT",
    "FLOAT8",
    "ORDERS",
    "POLICIES",
    "PREEMPTIONS",
    "BlockManager",
    "Branch",
    "ClearedEvent",
    "Clock",
    "DecodeRow",
    "Event",
    "Evicted",
    "Finished",
    "KVPool",
    "KVScales",
    "KVShape",
    "Key",
    "Lock",
    "ManualClock",
    "Match",
    "Namespace",
    "NewToken",
    "Outcome",
    "Output",
    "PagePool",
    "Pages",
    "Pair",
    "Policy",
    "PrefillChunk",
    "Probe",
    "RadixCache",
    "RemovedEvent",
    "Request",
    "Room",
    "Scheduler",
    "SchedulerConfig",
    "Stats",
    "StepPlan",
    "Stored",
    "StoredEvent",
    "Totals",
    "num_blocks_for",
    "padded",
    "pages_for",
    "scales_for",
    "token_bytes",
    "token_slots",
]
