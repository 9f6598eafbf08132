"""The radix tree: pins, clearing, events, statistics, deep trees, and its own verification."""

import pytest

from kgen.runtime.clock import ManualClock
from kgen.runtime.events import ClearedEvent, RemovedEvent, StoredEvent
from kgen.runtime.keys import DEFAULT, Namespace, token_bytes
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache
from tests.runtime.samples import cache_of, hit, match, refused, store


def test_a_pin_ends_with_its_time():
    clock = ManualClock()
    cache = cache_of(20, clock=clock)
    store(cache, range(4))
    store(cache, [9, 8])
    cache.pin(match(cache, range(4)), 10.0)
    early = cache.pin(match(cache, [9, 8]), 10.0)
    assert cache.evictable_size == 0
    cache.unlock(early)
    assert cache.evict(100).tokens == 2
    clock.advance(9.9)
    assert cache.evictable_size == 0 and cache.protected_size == 4
    clock.advance(0.1)
    assert cache.evictable_size == 4 and cache.evict(100).tokens == 4


def test_clearing_forgets_everything_unless_it_is_in_use():
    cache = cache_of(20)
    store(cache, range(4))
    lock = cache.lock(match(cache, range(2)))
    with refused("K704", "1 locks are held"):
        cache.clear()
    assert hit(cache, range(4)) == 4
    cache.unlock(lock)
    cache.clear()
    assert hit(cache, range(4)) == 0 and cache.pool.num_free == 20


def test_events_tell_what_is_stored_and_removed():
    heard = []
    cache = cache_of(20, page_size=2, on_event=heard.append)
    space = Namespace(adapter="x")
    first = store(cache, [1, 2, 3, 4], space).tolist()
    second = store(cache, [1, 2, 3, 4, 5, 6], space).tolist()
    match(cache, [1, 2, 9, 9], None, space)
    assert heard == [
        StoredEvent(space, -1, (1, 2, 3, 4), tuple(first)),
        StoredEvent(space, first[-1], (5, 6), (second[-1],)),
    ]
    cache.evict(4)
    assert heard[2:] == [RemovedEvent((second[-1],)), RemovedEvent((first[1],))]
    cache.clear()
    assert heard[4:] == [RemovedEvent((first[0],)), ClearedEvent()]


def test_statistics_add_up():
    cache = cache_of(20)
    store(cache, range(8))
    match(cache, range(8))
    match(cache, [0, 1, 99, 98])
    match(cache, [77])
    cache.evict(3)
    stats = cache.stats
    assert (stats.queries, stats.hits, stats.query_tokens, stats.hit_tokens) == (3, 2, 13, 10)
    assert (stats.stored_tokens, stats.evicted_tokens, stats.evicted_leaves, stats.splits) == (8, 6, 1, 1)
    assert stats.hit_rate == 10 / 13 and cache_of(1).stats.hit_rate == 0.0


def test_the_tree_as_text():
    cache = cache_of(50)
    assert cache.draw() == "(empty)"
    store(cache, range(20))
    store(cache, [0, 1, 2, 50], Namespace(adapter="x"), priority=2)
    lock = cache.lock(match(cache, [0, 1, 2, 3, 90]))
    store(cache, [0, 1, 2, 3, 90])
    assert cache.draw().splitlines() == [
        "[adapter=x]",
        "  #2 tokens 0..3 (0 1 2 50) lock 0 hits 0 priority 2",
        "[default]",
        "  #3 tokens 0..3 (0 1 2 3) lock 1 hits 1",
        "    #1 tokens 4..19 (4 5 6 7 8 9 10 11 ...) lock 0 hits 0",
        "    #4 tokens 4..4 (90) lock 0 hits 0",
    ]
    cache.unlock(lock)


def test_a_path_of_ten_thousand_nodes_is_no_trouble():
    cache = RadixCache(PagePool(20_000), check=False)
    tokens = list(range(10_000))
    lock = cache.lock_root()
    for token in tokens:
        lock, _ = cache.extend(lock, token_bytes([token]), cache.pool.allocate(1))
    assert match(cache, tokens).length == 10_000
    cache.check_integrity()
    assert len(cache.draw().splitlines()) == 202
    cache.unlock(lock)
    assert cache.evict(10_000).leaves == 10_000
    cache.check_integrity()


@pytest.mark.parametrize("page_size", [1, 3])
def test_integrity_finds_what_was_spoilt(page_size):
    cache = RadixCache(PagePool(30), page_size, check=False)
    store(cache, range(9))
    store(cache, [*range(6), 50, 51, 52])
    cache.check_integrity()
    upper = next(iter(cache.tree.root(DEFAULT).children.values()))
    upper.lock_ref = 1
    with refused("K708", f"node {upper.number} counts 1 locks and has 0", "fault of kgen"):
        cache.check_integrity()
    upper.lock_ref = 0
    cache.tree.evictable_pages -= 1
    with refused("K708", "the count of evictable pages is wrong"):
        cache.check_integrity()
    cache.tree.evictable_pages += 1
    upper.value = upper.value[:-4] + next(iter(upper.children.values())).value[:4]
    with refused("K708", "a page is in the tree twice"):
        cache.check_integrity()


def test_the_debug_mode_verifies_after_every_operation(monkeypatch):
    for value, found in [("1", True), ("0", False)]:
        monkeypatch.setenv("KGEN_CHECK", value)
        cache = RadixCache(PagePool(10))
        store(cache, range(4))
        cache.tree.evictable_pages += 1
        if found:
            with refused("K708", "count of evictable pages"):
                match(cache, range(4))
        else:
            match(cache, range(4))
