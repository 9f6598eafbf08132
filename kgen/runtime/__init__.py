"""The runtime: KV memory, the radix prefix cache and the scheduler, without a model and without kernels.

    PagePool       who owns each page                    pages.py
    KVPool         the tensors behind the pages          kvpool.py
    RadixCache     prefixes that are still in memory     radix.py over tree.py, node.py, order.py
    BlockManager   the pages of each sequence            blocks.py over tables.py, growth.py, swap.py
    Scheduler      what is computed in each step         scheduler.py over jobs.py, phases.py, committing.py

Nothing here starts a thread, reads a clock that was not handed in, or touches a device but through `KVPool`.

An engine owns the tensors and the model, and asks the scheduler what to do:

    kv, host = KVPool(layout, shape, num_pages, page_size), KVPool(layout, shape, host_pages, page_size)
    pool = PagePool(num_pages)
    cache = RadixCache(pool, page_size)
    manager = BlockManager(pool, page_size, cache, host_pages=host_pages)
    scheduler = Scheduler(manager, SchedulerConfig(max_batch_tokens=2048))
    scheduler.submit(Request("r1", prompt, max_new_tokens=64, width=4))
    while scheduler.has_work:
        plan = scheduler.schedule()
        host.copy_from(kv, plan.swap_out); kv.copy_from(host, plan.swap_in); kv.copy(plan.copies)
        logits = model(plan.rows)   # write the KV of every row to its slots, then attend over its pages
        results = {seq_id: [Branch(token, finish)] for seq_id, token, finish in sample(logits, plan.sampled)}
        outcome = scheduler.commit(results)

* `plan.prefills` are chunks: `tokens` and `slots` of what to compute, `start` tokens of prefix before them,
  `pages` up to the last. `plan.decodes` are single tokens. `seq_len` of either counts itself.
* `plan.sampled` names the sequences whose last row's logits are wanted. `commit` takes for each the tokens it
  goes on with: one; several to fork (n parallel samples at the first token, beams at any); none to drop it.
  What has a `finish`, or reached `max_new_tokens`, ends there.
* `outcome.tokens` says which sequence got which token and, of a fork, from which parent: state kept by
  sequence is copied from `parent_id` to `seq_id`. `outcome.finished` has the outputs of requests that ended.
* A plan may be empty while requests wait, as for a pin to end; it is then not committed. A step that failed
  is given to `discard`. `abort` may come at any time, `retract` between steps.
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
from kgen.runtime.scheduler import Scheduler
from kgen.runtime.stats import Stats
from kgen.runtime.tables import padded, pages_for, token_slots
from kgen.runtime.totals import Totals

__all__ = [
    "CACHED",
    "DEFAULT",
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
    "token_bytes",
    "token_slots",
]
