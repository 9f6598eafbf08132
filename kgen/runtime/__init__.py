"""The runtime: KV memory, the radix prefix cache and the scheduler, without a model and without kernels.

    PagePool       who owns each page                    pages.py
    KVPool         the tensors behind the pages          kvpool.py
    RadixCache     prefixes that are still in memory     radix.py over tree.py, node.py, order.py
    BlockManager   the pages of each sequence            blocks.py over tables.py, growth.py, swap.py

Nothing here starts a thread, reads a clock that was not handed in, or touches a device but through `KVPool`.
"""

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.clock import Clock, ManualClock
from kgen.runtime.events import ClearedEvent, Event, RemovedEvent, StoredEvent
from kgen.runtime.keys import DEFAULT, Key, Namespace, token_bytes
from kgen.runtime.kvpool import KVPool, KVShape, num_blocks_for
from kgen.runtime.pages import CACHED, PagePool, Pages
from kgen.runtime.policies import POLICIES, Policy
from kgen.runtime.radix import RadixCache
from kgen.runtime.results import Evicted, Lock, Match, Probe, Stored
from kgen.runtime.room import Room
from kgen.runtime.stats import Stats
from kgen.runtime.tables import padded, pages_for, token_slots

__all__ = [
    "CACHED",
    "DEFAULT",
    "POLICIES",
    "BlockManager",
    "ClearedEvent",
    "Clock",
    "Event",
    "Evicted",
    "KVPool",
    "KVShape",
    "Key",
    "Lock",
    "ManualClock",
    "Match",
    "Namespace",
    "PagePool",
    "Pages",
    "Pair",
    "Policy",
    "Probe",
    "RadixCache",
    "RemovedEvent",
    "Room",
    "Stats",
    "Stored",
    "StoredEvent",
    "num_blocks_for",
    "padded",
    "pages_for",
    "token_bytes",
    "token_slots",
]
