"""`kgen bench radix`: what the radix cache costs a request, and single operations on large trees.

Times are CPU time of this process, without a kernel and without a model. A request's key is made once, when
it arrives, and is told apart from the rest.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgen.bench.conversations import Turn, conversations
from kgen.bench.decode import Progress
from kgen.bench.measure import Spread, spread
from kgen.runtime import Key, Lock, PagePool, Pages, RadixCache, pages_for, token_bytes

DEFAULTS: Mapping[str, Any] = {
    "requests": 2000,
    "sessions": 200,
    "pool_tokens": 200_000,
    "in_flight": 16,
    "page_size": (1, 16, 64),
    "policy": "lru",
    "rounds": 200,
    "leaves": (1_000, 10_000, 100_000),
}
STEPS = ("match", "lock", "allocate", "insert", "unlock")
LONG_HIT = 131_072
DEEP_TOKENS, DEEP_NODES = 32_768, 2_048


@dataclass(frozen=True)
class TraceRow:
    """A request's way through the cache at one page size, in microseconds. `steps`: the median of each of
    STEPS. `key_us`: a list of tokens to a key, which is not in the other figures."""

    page_size: int
    median_us: float
    p99_us: float
    requests_per_second: float
    steps: Mapping[str, float]
    key_us: float
    hit_rate: float
    evicted_leaves: int


@dataclass(frozen=True)
class CaseRow:
    """One operation on a tree of a known shape, in microseconds."""

    case: str
    page_size: int
    us: Spread
    worst_us: float


@dataclass(frozen=True)
class RadixReport:
    """All that was measured."""

    trace: tuple[TraceRow, ...]
    cases: tuple[CaseRow, ...]

    def json(self) -> dict[str, Any]:
        return asdict(self)


def run(args: Mapping[str, Any], progress: Progress = lambda line: None) -> RadixReport:
    """Send the trace through the cache at each page size, then time single operations."""
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    turns = conversations(options["requests"], options["sessions"])
    trace = []
    for page_size in options["page_size"]:
        progress(f"trace of {options['requests']} requests, page {page_size}")
        trace.append(_trace(turns, page_size, options))
    cases = []
    for case, page_size, act in _cases(options):
        progress(case)
        cases.append(_measure(case, page_size, act, options["rounds"]))
    return RadixReport(tuple(trace), tuple(cases))


class Flow:
    """Requests in flight through one cache. `times`: nanoseconds by STEPS of each that has ended."""

    def __init__(self, cache: RadixCache) -> None:
        self.cache = cache
        self.times: list[list[int]] = []
        self._flight: deque[tuple[bytes, int, Lock, Pages, list[int]]] = deque()

    def __len__(self) -> int:
        return len(self._flight)

    def begin(self, turn: Turn) -> None:
        """Match, lock, and allocate what a request needs for its prompt and its answer."""
        cache, clock = self.cache, time.process_time_ns
        key, whole = Key.of(turn.prompt), token_bytes(turn.whole)
        start = clock()
        match = cache.match_prefix(key, len(key) - 1)
        matched = clock()
        lock = cache.lock(match)
        locked = clock()
        pages = cache.pool.allocate(pages_for(len(turn.whole), cache.page_size) - len(match.pages))
        times = [matched - start, locked - matched, clock() - locked]
        self._flight.append((whole, match.length, lock, pages, times))

    def end(self) -> None:
        """Store what the oldest request computed, release its lock and what is left over."""
        cache, clock = self.cache, time.process_time_ns
        whole, length, lock, pages, times = self._flight.popleft()
        page_bytes = len(token_bytes([0])) * cache.page_size
        first = length // cache.page_size * page_bytes
        start = clock()
        count = (len(whole) - first) // page_bytes
        lock, stored = cache.extend(lock, whole[first : first + count * page_bytes], pages[:count])
        inserted = clock()
        cache.unlock(lock)
        for rest in (stored.duplicates, pages[count:]):
            if len(rest):
                cache.pool.release(rest)
        self.times.append([*times, inserted - start, clock() - inserted])


def _trace(turns: Sequence[Turn], page_size: int, options: Mapping[str, Any]) -> TraceRow:
    pool = PagePool(options["pool_tokens"] // page_size)
    flow = Flow(RadixCache(pool, page_size, options["policy"], check=False))
    with _no_collection():
        for turn in turns:
            flow.begin(turn)
            if len(flow) > options["in_flight"]:
                flow.end()
        while len(flow):
            flow.end()
    flow.cache.check_integrity()
    times = np.array(flow.times) / 1e3
    whole = times.sum(axis=1)
    return TraceRow(
        page_size,
        float(np.median(whole)),
        float(np.percentile(whole, 99)),
        float(1e6 / whole.mean()),
        dict(zip(STEPS, np.median(times, axis=0).tolist(), strict=True)),
        spread([_us(Key.of, turn.prompt.tolist()) for turn in turns[:200]]).median,
        flow.cache.stats.hit_rate,
        flow.cache.stats.evicted_leaves,
    )


def _cases(options: Mapping[str, Any]) -> Iterator[tuple[str, int, Callable[[], object]]]:
    policy = options["policy"]
    for page_size in (1, 16):
        yield f"match of {LONG_HIT:,} tokens in one node", page_size, _chain(LONG_HIT, 1, policy, page_size)
    for page_size in (1, 16):
        case = f"match of {DEEP_TOKENS:,} tokens over {DEEP_NODES:,} nodes"
        yield case, page_size, _chain(DEEP_TOKENS, DEEP_NODES, policy, page_size)
    for leaves in options["leaves"]:
        yield f"evict one page of {leaves:,} leaves", 16, _leaves(leaves, policy, 16)


def _chain(num_tokens: int, num_nodes: int, policy: str, page_size: int) -> Callable[[], object]:
    """Matching a prompt that lies in a chain of nodes, with a key of bytes other than the tree's."""
    tokens = np.random.default_rng(2).integers(0, 50_000, num_tokens, dtype=np.int32)
    cache = RadixCache(PagePool(num_tokens // page_size), page_size, policy, check=False)
    step = num_tokens // num_nodes
    lock = cache.lock_root()
    for start in range(0, num_tokens, step):
        pages = cache.pool.allocate(step // page_size)
        lock, _ = cache.extend(lock, token_bytes(tokens[start : start + step]), pages)
    cache.unlock(lock)
    key = Key.of(tokens)
    return lambda: cache.match_prefix(key)


def _leaves(count: int, policy: str, page_size: int) -> Callable[[], object]:
    """Evicting from leaves of one page, half of which were used again in another order than they came."""
    cache = RadixCache(PagePool(count), page_size, policy, check=False)
    keys = [Key.of([number] * page_size) for number in range(count)]
    for key in keys:
        cache.insert(key, cache.pool.allocate(1))
    for place in np.random.default_rng(4).permutation(count)[: count // 2].tolist():
        cache.match_prefix(keys[place])
    return lambda: cache.reclaim(1)


def _measure(case: str, page_size: int, act: Callable[[], object], rounds: int) -> CaseRow:
    with _no_collection():
        times = [_us(act) for _ in range(rounds)]
    return CaseRow(case, page_size, spread(times), max(times))


def _us(act: Callable[..., object], *args: object) -> float:
    start = time.process_time_ns()
    act(*args)
    return (time.process_time_ns() - start) / 1e3


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's cycle collector, which visits every object there is, out of single operations."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
