"""The radix tree: matching, splitting, locking, storing, and what must not be mistaken for each other."""

import numpy as np

from kgen.runtime.keys import DEFAULT, Key, Namespace, token_bytes
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache
from tests.runtime.samples import cache_of, hit, match, nodes, refused, store, text


def test_a_split_keeps_both_halves_and_their_slots():
    cache = cache_of(20)
    store(cache, text("ABCDEF"))
    found = match(cache, text("ABCXYZ"))
    assert (found.length, found.pages.tolist()) == (3, [0, 1, 2])
    assert nodes(cache) == [(text("ABC"), [0, 1, 2], 0), (text("DEF"), [3, 4, 5], 0)]
    store(cache, text("ABCXYZ"))
    assert nodes(cache)[2] == (text("XYZ"), [9, 10, 11], 0)
    assert cache.stats.splits == 1


def test_a_run_without_a_branch_is_one_node():
    cache = cache_of(2100)
    store(cache, range(2000))
    assert [len(tokens) for tokens, _, _ in nodes(cache)] == [2000]


def test_a_split_inherits_locks_hits_and_priority():
    cache = cache_of(20)
    store(cache, range(8), priority=5)
    lock = cache.lock(match(cache, range(8)))
    assert match(cache, [0, 1, 2, 3, 99]).length == 4
    upper = next(iter(cache.tree.root(DEFAULT).children.values()))
    lower = next(iter(upper.children.values()))
    assert (upper.lock_ref, upper.hit_count, upper.priority) == (1, 2, 5)
    assert (lower.lock_ref, lower.hit_count, lower.priority) == (1, 1, 5)
    cache.unlock(lock)
    assert [locks for _, _, locks in nodes(cache)] == [0, 0]
    assert cache.evictable_size == 8 and cache.protected_size == 0


def test_a_lock_covers_the_node_itself_and_all_above():
    cache = cache_of(20)
    store(cache, range(4))
    store(cache, range(8))
    lock = cache.lock(match(cache, range(8)))
    assert cache.evict(100).tokens == 0 and hit(cache, range(8)) == 8
    other = cache.lock(match(cache, range(4)))
    cache.unlock(lock)
    assert cache.evict(100).tokens == 4 and hit(cache, range(8)) == 4
    cache.unlock(other)
    assert cache.evict(100).tokens == 4 and cache.pool.num_free == 20


def test_the_root_is_never_evicted_and_stays_locked():
    cache = cache_of(4)
    root_lock = cache.lock(match(cache, [1]))
    store(cache, [1, 2])
    root = cache.tree.root(DEFAULT)
    assert root.lock_ref == 1
    cache.unlock(root_lock)
    assert root.lock_ref == 1
    cache.evict(100)
    assert not cache.tree.roots and cache.pool.num_free == 4


def test_a_page_matches_whole_or_not_at_all():
    cache = cache_of(8, page_size=3)
    store(cache, text("abc"))
    assert match(cache, text("abx")).length == 0
    assert cache.stats.splits == 0 and len(nodes(cache)) == 1
    assert match(cache, text("ab")).length == 0  # shorter than a page
    assert match(cache, text("abcd")).length == 3


def test_splits_fall_on_page_boundaries():
    cache = cache_of(20, page_size=4)
    store(cache, range(12))
    assert match(cache, [*range(7), 99, 98]).length == 4
    assert [tokens for tokens, _, _ in nodes(cache)] == [[0, 1, 2, 3], list(range(4, 12))]


def test_children_may_begin_with_the_same_token_within_a_page():
    cache = cache_of(8, page_size=2)
    store(cache, [1, 2])
    store(cache, [1, 3])
    assert hit(cache, [1, 2]) == hit(cache, [1, 3]) == 2 and hit(cache, [1, 4]) == 0


def test_45_of_45_tokens_hit_where_whole_blocks_of_16_give_32():
    prefix, more = list(range(45)), [200, 201, 202]
    by_token, by_block = cache_of(100), cache_of(10, page_size=16)
    store(by_token, [*prefix, 100, 101])
    store(by_block, [*prefix, 100, 101, 102])
    assert match(by_token, [*prefix, *more]).length == 45
    assert match(by_block, [*prefix, *more]).length == 32


def test_the_limit_keeps_a_token_to_compute():
    cache = cache_of(20)
    pages = store(cache, range(10))
    found = match(cache, range(10), limit=9)
    assert found.length == 9 and found.pages.tolist() == pages[:9].tolist()
    assert match(cache, range(10), limit=0).length == 0
    by_page = cache_of(20, page_size=4)
    store(by_page, range(8))
    assert match(by_page, range(8), limit=7).length == 4


def test_a_probe_neither_splits_nor_counts_as_a_use():
    cache = cache_of(20)
    store(cache, [1, 2, 3, 4])
    store(cache, [5, 6])
    before = (nodes(cache), cache.stats, [entry[:2] for entry in cache.tree.leaves])
    assert [hit(cache, [1, 2, 9]), hit(cache, [5, 6, 7]), hit(cache, [8])] == [2, 2, 0]
    assert before == (nodes(cache), cache.stats, [entry[:2] for entry in cache.tree.leaves])


ALPHABET = ("a", "b", "a+b", "")
NAMESPACES = [
    Namespace(),
    *[Namespace(adapter=word) for word in ALPHABET],
    *[Namespace(salt=word) for word in ALPHABET],
    *[Namespace(media=(word,)) for word in ALPHABET],
    Namespace(media=("a", "b")),
    Namespace(media=("b", "a")),
    Namespace(adapter="a", salt="b"),
    Namespace(adapter="b", salt="a"),
]


def test_namespaces_of_every_kind_and_word_are_apart():
    cache = cache_of(100)
    for namespace in NAMESPACES:
        assert hit(cache, [1, 2, 3], namespace) == 0, namespace
        store(cache, [1, 2, 3], namespace)
    assert len({tuple(match(cache, [1, 2, 3], None, space).pages) for space in NAMESPACES}) == len(NAMESPACES)
    assert cache.stats.duplicate_tokens == 0


def test_the_same_placeholder_ids_for_another_image_miss():
    cache = cache_of(20)
    placeholders = [7] * 6
    store(cache, placeholders, Namespace(media=("sha:1",)))
    assert hit(cache, placeholders, Namespace(media=("sha:2",))) == 0
    assert hit(cache, placeholders, Namespace(media=("sha:1",))) == 6


def test_a_namespace_is_forgotten_with_its_last_node():
    cache = cache_of(10)
    for number in range(50):
        space = Namespace(salt=str(number))
        match(cache, [1], None, space)
        store(cache, [1, 2, 3], space)
    assert len(cache.tree.roots) == 3


def test_a_lock_on_nothing_can_be_extended_after_its_namespace_was_forgotten():
    cache = cache_of(10)
    lock = cache.lock(match(cache, [1]))
    store(cache, [1, 2])
    cache.evict(10)
    store(cache, [1, 5])
    lock, stored = cache.extend(lock, token_bytes([1, 2]), cache.pool.allocate(2))
    assert stored.stored == 1 and len(cache.tree.roots) == 1 and hit(cache, [1, 2]) == 2
    cache.pool.release(stored.duplicates)
    cache.unlock(lock)
    assert cache.pool.num_held == 0


def test_no_stale_hit_after_pages_were_reused():
    cache = cache_of(4)
    old = store(cache, [1, 2, 3, 4]).tolist()
    cache.evict(4)
    assert sorted(store(cache, [5, 6, 7, 8]).tolist()) == sorted(old)
    assert hit(cache, [1, 2, 3, 4]) == 0 and hit(cache, [5, 6, 7, 8]) == 4


def test_extending_a_lock_moves_it_to_the_new_end():
    cache = cache_of(20)
    store(cache, range(4))
    lock = cache.lock(match(cache, range(4)))
    lock, stored = cache.extend(lock, token_bytes([4, 5, 6]), cache.pool.allocate(3))
    assert (lock.length, stored.stored, len(stored.duplicates)) == (7, 3, 0)
    assert [locks for _, _, locks in nodes(cache)] == [1, 1]
    cache.unlock(lock)
    assert [locks for _, _, locks in nodes(cache)] == [0, 0]


def test_what_the_tree_had_by_then_comes_back_as_duplicates():
    cache = cache_of(20)
    lock = cache.lock(match(cache, range(6)))
    theirs = store(cache, [0, 1, 2, 9])
    mine = cache.pool.allocate(6)
    lock, stored = cache.extend(lock, token_bytes(range(6)), mine)
    assert stored.existing.tolist() == theirs[:3].tolist() and stored.stored == 3
    assert stored.duplicates.tolist() == mine[:3].tolist()
    assert cache.pool.num_held == 3
    cache.pool.release(stored.duplicates)
    cache.unlock(lock)
    assert cache.evictable_size == 7


def test_pages_the_tree_owns_already_may_be_given_again():
    cache = cache_of(20)
    pages = store(cache, range(4))
    more = cache.pool.allocate(2)
    stored = cache.insert(Key.of(range(6)), np.concatenate([pages, more]))
    assert stored.stored == 2 and len(stored.duplicates) == 0


def test_wrong_use_of_locks_raises_at_once_and_changes_nothing():
    cache, other = cache_of(20), cache_of(20)
    store(cache, range(4))
    store(other, range(4))
    lock, stale = cache.lock(match(cache, range(4))), match(other, range(4))
    other.evict(4)
    cache.unlock(lock)
    before = nodes(cache)
    for act, words in [
        (lambda: cache.unlock(lock), "released already"),
        (lambda: cache.extend(lock, b"", cache.pool.allocate(0)), "released already"),
        (lambda: cache.relock(lock), "released already"),
        (lambda: other.unlock(lock), "of another cache"),
        (lambda: cache.lock(stale), "of another cache"),
        (lambda: other.lock(stale), "was evicted"),
        (lambda: other.pin(stale, 1.0), "was evicted"),
    ]:
        with refused("K704", words):
            act()
    assert nodes(cache) == before and not cache.locks and not other.locks


def test_a_match_split_by_another_can_still_be_locked():
    cache = cache_of(20)
    store(cache, range(6))
    found = match(cache, range(6))
    match(cache, [0, 1, 2, 99])
    lock = cache.lock(found)
    assert cache.evict(100).tokens == 0
    cache.unlock(lock)


def test_sizes_that_do_not_fit_are_refused():
    cache = cache_of(20, page_size=4)
    pages = cache.pool.allocate(2)
    with refused("K701", "6 tokens do not fill 2 pages of 4"):
        cache.insert(Key.of(range(6)), pages)
    lock = cache.lock_root()
    with refused("K701", "2 tokens do not fill 2 pages of 4"):
        cache.extend(lock, token_bytes([1, 2]), pages)
    cache.unlock(lock)
    for act in [
        lambda: cache.evict(-1),
        lambda: cache.reclaim(-1),
        lambda: match(cache, range(4), limit=-1),
        lambda: cache.pin(match(cache, range(4)), -1.0),
        lambda: cache.pin(match(cache, range(4)), float("nan")),
        lambda: Key.of([2**31]),
        lambda: Key.of([1.5]),
        lambda: Key.of(np.array([2**40])),
        lambda: Key.of(np.array([[1]])),
        lambda: RadixCache(PagePool(4), 0),
        lambda: RadixCache(PagePool(4), 1, "mru"),
        lambda: RadixCache(cache.pool, 4),
    ]:
        with refused("K701"):
            act()
    cache.pool.release(pages)
    with refused("K703", "is free"):
        cache.insert(Key.of(range(8)), pages)
    assert cache.pool.num_free == 20
