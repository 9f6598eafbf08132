"""Which leaves go, in which order, and how many."""

import pytest

from kgen.runtime.keys import DEFAULT, Key
from kgen.runtime.node import hits_through
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache
from tests.runtime.samples import cache_of, hit, store

WORDS = {"a": [1, 1], "b": [2, 2], "c": [3, 3], "d": [4, 4]}


def kept(cache: RadixCache) -> str:
    return "".join(name for name, tokens in WORDS.items() if hit(cache, tokens) == 2)


def use(cache: RadixCache, name: str) -> None:
    cache.match_prefix(Key.of(WORDS[name]))


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("lru", ["acd", "ad", "a"]),
        ("fifo", ["bcd", "cd", "d"]),
        ("lfu", ["acd", "ad", "a"]),
        ("priority", ["abd", "ad", "a"]),
    ],
)
def test_each_policy_takes_its_own_first(policy, left):
    """Stored a, b, c, d with priorities 3, 1, 0, 2; used a thrice, c once, d twice, then d and a last."""
    cache = cache_of(8, policy=policy)
    for name, priority in zip("abcd", (3, 1, 0, 2), strict=True):
        store(cache, WORDS[name], priority=priority)
    for name in "aacdda":
        use(cache, name)
    for expected in left:
        assert cache.evict(1).leaves == 1
        assert kept(cache) == expected


def test_a_policy_of_ones_own_is_an_object_with_a_rank():
    class LongestFirst:
        name = "longest-first"

        def rank(self, node):
            return -len(node.key)

    cache = RadixCache(PagePool(20), policy=LongestFirst(), check=True)
    for tokens in ([1], [2, 2, 2], [3, 3]):
        store(cache, tokens)
    assert [cache.evict(1).tokens for _ in range(3)] == [3, 2, 1]


def test_whole_leaves_go_until_the_shortfall_is_covered():
    cache = cache_of(100)
    for first in range(10):
        store(cache, [100 + first] * 9)
    assert cache.pool.num_free == 10
    assert len(cache.pool.allocate(20)) == 20  # ten are short: two leaves of nine
    assert (cache.stats.evicted_leaves, cache.pool.num_free) == (2, 8)


def test_ninety_free_and_a_hundred_wanted_evicts_for_ten():
    cache = cache_of(190)
    for first in range(100):
        store(cache, [first])
    cache.pool.allocate(100)
    assert cache.stats.evicted_tokens == 10


def test_a_chain_goes_upward_in_one_call_and_no_further_than_needed():
    cache = cache_of(20)
    for length in (3, 6, 9):
        store(cache, range(length))
    assert cache.evict(4).tokens == 6
    assert hit(cache, range(9)) == 3
    assert cache.evict(1).tokens == 3


def test_an_inner_node_is_never_taken_from_under_its_children():
    cache = cache_of(20)
    store(cache, [1, 2, 3])
    store(cache, [1, 2, 3, 4])
    store(cache, [1, 2, 3, 5])
    lock = cache.lock(cache.match_prefix(Key.of([1, 2, 3, 5])))
    assert cache.evict(100).tokens == 1  # only [4]: the rest leads to the locked leaf
    assert hit(cache, [1, 2, 3, 5]) == 4
    cache.unlock(lock)
    assert cache.evict(100).tokens == 4


def test_a_parent_is_as_recent_and_as_often_hit_as_what_was_below_it():
    cache = cache_of(20)
    store(cache, [1, 2])
    store(cache, [1, 2, 3])
    store(cache, [9])
    for _ in range(2):
        cache.match_prefix(Key.of([1, 2, 3]))
    lock = cache.lock(cache.match_prefix(Key.of([9])))
    assert cache.evict(1).tokens == 1 and hit(cache, [1, 2]) == 2
    cache.unlock(lock)
    parent = next(iter(cache.tree.leaves))[2]
    assert parent.hit_count == 2
    assert cache.evict(1).tokens == 2  # [1, 2] was last used before [9]


def test_a_parent_is_as_recent_as_a_child_that_was_used_last():
    cache = cache_of(20)
    store(cache, [1, 2])
    store(cache, [1, 2, 3])
    store(cache, [9])
    lock = cache.lock(cache.match_prefix(Key.of([9])))
    cache.match_prefix(Key.of([1, 2, 3]))
    assert cache.evict(1).tokens == 1 and hit(cache, [1, 2, 3]) == 2
    cache.unlock(lock)
    assert cache.evict(1).tokens == 1 and hit(cache, [9]) == 0


def test_a_parent_has_the_priority_of_what_was_below_it():
    cache = cache_of(20, policy="priority")
    store(cache, [1, 2])
    store(cache, [1, 2, 3], priority=5)
    store(cache, [8], priority=7)
    assert cache.evict(1).tokens == 1 and hit(cache, [1, 2, 3]) == 2
    store(cache, [7], priority=2)
    assert cache.evict(1).tokens == 1 and hit(cache, [7]) == 0


def test_hits_before_a_split_count_once():
    cache = cache_of(20, policy="lfu")
    store(cache, [1, 2, 3, 4])
    for _ in range(3):
        cache.match_prefix(Key.of([1, 2, 3, 4]))
    cache.match_prefix(Key.of([1, 2, 9]))
    cache.match_prefix(Key.of([1, 2, 3, 4]))
    upper = next(iter(cache.tree.root(DEFAULT).children.values()))
    lower = next(iter(upper.children.values()))
    assert (hits_through(upper), hits_through(lower)) == (5, 4)
    cache.evict(1)
    assert (hit(cache, [1, 2, 3]), upper.hit_count) == (2, 5)


def test_replaying_a_log_evicts_the_same_leaves():
    def play(policy: str) -> list[tuple[int, ...]]:
        gone: list[tuple[int, ...]] = []
        cache = RadixCache(PagePool(60), policy=policy, on_event=lambda event: gone.append(event.pages))
        for step in range(400):
            tokens = [step * 7 % 13, step * 5 % 11, step % 3, step % 2]
            cache.match_prefix(Key.of(tokens))
            store(cache, tokens, priority=step % 4)
        return gone

    for policy in ("lru", "lfu", "fifo", "priority"):
        assert play(policy) == play(policy)


class Counted:
    """A rank that counts how often ranks are compared."""

    comparisons = 0

    def __init__(self, tick: int) -> None:
        self.tick = tick

    def __lt__(self, other: "Counted") -> bool:
        Counted.comparisons += 1
        return self.tick < other.tick

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return self.tick == other.tick

    __hash__ = None


class CountedLru:
    name = "counted-lru"

    def rank(self, node):
        return Counted(node.tick)


def test_what_one_operation_compares_does_not_grow_with_the_leaves():
    found = []
    for count in (1_000, 16_000):
        cache = RadixCache(PagePool(count), policy=CountedLru(), check=False)
        for first in range(count):
            store(cache, [first])
        for first in reversed(range(count)):
            cache.match_prefix(Key.of([first]))
        Counted.comparisons = 0
        assert cache.evict(1).leaves == 1
        evicting, Counted.comparisons = Counted.comparisons, 0
        cache.match_prefix(Key.of([5]))
        store(cache, [count])
        found.append((evicting, Counted.comparisons))
        assert hit(cache, [count - 1]) == 0 and hit(cache, [0]) == 1
    (few, some), (many, more) = found
    assert few == many == 0 and more <= some + 60  # a search over sixteen times as many leaves
