"""Block tables: forks that cost nothing, copies only when two would write, swapping, and room."""

import numpy as np
import pytest
import torch

from kgen.runtime.blocks import BlockManager
from kgen.runtime.clock import ManualClock
from kgen.runtime.keys import Key, token_bytes
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache
from kgen.runtime.room import Room
from tests.runtime.memory import Memory, kv_of
from tests.runtime.samples import hit, manager_of, refused, store


def held(manager: BlockManager) -> int:
    return manager.pool.num_held


def test_tables_hold_just_the_pages_their_tokens_need():
    manager = manager_of(10, 16, cached=False)
    manager.allocate("a", 33)
    assert len(manager.table("a").pages) == 3 and held(manager) == 3
    manager.allocate("empty", 0)
    assert manager.append_slots(["empty"]) == [] and held(manager) == 4
    manager.free("a")
    manager.free("empty")
    assert manager.pool.num_free == 10


def test_a_full_last_block_opens_a_new_one():
    manager = manager_of(4, 4, cached=False)
    manager.allocate("a", 4)
    assert manager.pages_to_append(["a"]) == 1
    assert manager.append_slots(["a"]) == [] and held(manager) == 2
    assert manager.pages_to_append(["a"], 3) == 0
    manager.append_slots(["a"], 3)
    manager.append_slots(["a"], 5)
    assert manager.table("a").length == 13 and held(manager) == 4


def test_a_fork_takes_no_page_and_counts_each_block_once():
    manager = manager_of(300, 16, cached=False)
    manager.allocate(0, 1024)
    for beam in (1, 2, 3):
        manager.fork(0, beam)
    assert held(manager) == 64  # four beams on 1,024 tokens hold 1,024, not 4,096
    assert set(manager.pool.ref_counts[manager.table(0).pages].tolist()) == {4}
    for beam in (0, 2, 1, 3):
        manager.free(beam)
    assert manager.pool.num_free == 300


@pytest.mark.parametrize(("length", "pairs"), [(16, 0), (20, 3)])
def test_four_beams_copy_a_partial_tail_and_never_a_full_one(length, pairs):
    manager = manager_of(20, 16, cached=False)
    manager.allocate(0, length)
    for beam in (1, 2, 3):
        manager.fork(0, beam)
    tail = int(manager.table(0).pages[-1])
    assert manager.pages_to_append(range(4)) == max(pairs, 4 if length == 16 else 0)
    copied = manager.append_slots(list(range(4)))
    assert [source for source, _ in copied] == [tail] * pairs
    tails = {int(manager.table(beam).pages[-1]) for beam in range(4)}
    assert len(tails) == 4
    assert (tail in tails) == (length == 20)  # the last owner writes in place


def test_two_beams_that_diverge_inside_a_block_need_exactly_one_copy():
    manager = manager_of(8, 4, cached=False)
    memory = Memory(8, 4)
    manager.allocate("a", 6)
    memory.write(manager.slots("a", 0, 6), kv_of([1, 2, 3, 4, 5, 6]))
    manager.fork("a", "b")
    pairs = manager.append_slots(["a"]) + manager.append_slots(["b"])
    assert len(pairs) == 1
    memory.copy(pairs)
    for name, token in (("a", 7), ("b", 8)):
        memory.write(manager.slots(name, 6, 7), kv_of([1, 2, 3, 4, 5, 6, token])[-1:])
    for name, token in (("a", 7), ("b", 8)):
        assert memory.read(manager.table(name).pages, 7) == kv_of([1, 2, 3, 4, 5, 6, token])


def test_appending_is_all_or_nothing_and_counts_pages_not_tokens():
    manager = manager_of(5, 4, cached=False)
    for name in "abc":
        manager.allocate(name, 4)
    assert manager.pages_to_append("abc") == 3  # three tokens, three pages, and two are free
    with refused("K702", "3 pages are wanted; 2 are free"):
        manager.append_slots("abc")
    assert [manager.table(name).length for name in "abc"] == [4, 4, 4]
    manager.append_slots("ab")
    assert manager.pool.num_free == 0


def test_room_is_now_later_or_never():
    manager = manager_of(10, 4, cached=False, watermark=0.2)
    assert manager.room_for(32) is Room.OK
    assert manager.room_for(33) is Room.NEVER  # 9 pages, of which 8 may be used
    manager.allocate("a", 12)
    assert manager.room_for(20) is Room.OK
    assert manager.room_for(21) is Room.LATER
    manager.free("a")
    assert manager.room_for(21) is Room.OK


def test_room_counts_what_can_be_evicted_but_not_the_match_itself():
    manager = manager_of(10)
    store(manager.cache, range(6))
    match = manager.cache.match_prefix(Key.of(range(6)))
    assert manager.room_for(10, match) is Room.OK
    other = manager.cache.match_prefix(Key.of([99]))
    assert manager.room_for(10, other) is Room.OK
    manager.allocate("a", 6, match)
    assert manager.room_for(4) is Room.OK and manager.room_for(5) is Room.LATER


def test_room_knows_that_a_pin_on_the_match_has_ended():
    clock = ManualClock()
    pool = PagePool(6)
    cache = RadixCache(pool, clock=clock, check=True)
    manager = BlockManager(pool, 1, cache, watermark=0.0, check=True)
    store(cache, range(4))
    cache.pin(cache.match_prefix(Key.of(range(4))), 5.0)
    manager.allocate("a", 2)
    match = cache.match_prefix(Key.of(range(4)))
    clock.advance(5.0)
    assert manager.room_for(5, match) is Room.LATER
    assert manager.room_for(4, match) is Room.OK


def test_allocation_evicts_only_what_is_short():
    manager = manager_of(100)
    for first in range(0, 1000, 100):
        store(manager.cache, [first])
    assert manager.pool.num_free == 90
    manager.allocate("a", 95)
    assert manager.cache.stats.evicted_tokens == 5 and manager.pool.num_cached == 5


def test_swapping_keeps_what_was_shared_shared():
    manager = manager_of(8, 4, cached=False, host_pages=4)
    device, host = Memory(8, 4), Memory(4, 4)
    manager.allocate("a", 10)
    device.write(manager.slots("a", 0, 10), kv_of(range(10)))
    manager.fork("a", "b")
    assert manager.room_to_swap_out(["a", "b"])
    pairs = manager.swap_out(["a", "b"])
    host.copy(pairs, device)
    assert len(pairs) == 3 and manager.pool.num_free == 8 and manager.swap.pool.num_held == 3
    device.slots[:] = -1
    assert manager.room_to_swap_in(["a", "b"]) is Room.OK
    back = manager.swap_in(["a", "b"])
    device.copy(back, host)
    assert len(back) == 3 and manager.swap.pool.num_free == 4
    assert set(manager.pool.ref_counts[manager.table("a").pages].tolist()) == {2}
    assert device.read(manager.table("b").pages, 10) == kv_of(range(10))


def test_swap_in_without_the_pages_it_needs_waits_and_changes_nothing():
    manager = manager_of(6, 4, cached=False, host_pages=6)
    manager.allocate("a", 12)
    manager.swap_out(["a"])
    manager.allocate("b", 16)
    assert manager.room_to_swap_in(["a"]) is Room.LATER
    with refused("K702", "3 pages are wanted; 2 are free"):
        manager.swap_in(["a"])
    assert manager.swap.pool.num_held == 3 and manager.pool.num_free == 2
    manager.free("b")
    assert len(manager.swap_in(["a"])) == 3


def test_swap_in_needs_a_page_more_only_where_the_last_is_full_or_shared():
    for length, forks, need in [(11, 0, 3), (12, 0, 4), (11, 2, 5), (12, 2, 6)]:
        manager = manager_of(need, 4, cached=False, host_pages=3)
        manager.allocate(0, length)
        for child in range(1, forks + 1):
            manager.fork(0, child)
        names = range(forks + 1)
        manager.swap_out(names)
        assert manager.room_to_swap_in(names) is Room.OK
        manager.allocate("other", 1)
        assert manager.room_to_swap_in(names) is Room.LATER
        manager.free("other")
        manager.swap_in(names)
        manager.append_slots(names)
        assert manager.pool.num_free == 0


def test_a_full_swap_space_is_known_beforehand():
    manager = manager_of(8, 4, cached=False, host_pages=2)
    manager.allocate("a", 12)
    assert not manager.room_to_swap_out(["a"])
    with refused("K702", "3 pages are wanted; 2 are free"):
        manager.swap_out(["a"])
    assert manager.table("a").length == 12 and held(manager) == 3


def test_a_swapped_sequence_can_be_freed():
    manager = manager_of(8, 4, cached=False, host_pages=4)
    manager.allocate("a", 12)
    manager.swap_out(["a"])
    with refused("K705", "is swapped out"):
        manager.append_slots(["a"])
    manager.free("a")
    assert manager.swap.pool.num_free == 4 and manager.pool.num_free == 8


def test_a_cached_prefix_is_locked_not_copied():
    manager = manager_of(20, 4)
    store(manager.cache, range(8))
    match = manager.cache.match_prefix(Key.of(range(12)))
    manager.allocate("a", 12, match)
    assert manager.table("a").pages[:2].tolist() == match.pages.tolist()
    assert held(manager) == 1 and manager.cache.protected_size == 8
    manager.allocate("rest", 68)
    with refused("K702", "1 pages are wanted; 0 are free and 0 more"):
        manager.append_slots(["a"])
    manager.free("a")
    assert manager.cache.evictable_size == 8


def test_parallel_samples_of_a_cached_prompt_share_prefix_and_tail():
    manager = manager_of(20, 4)
    data = token_bytes(range(10))
    store(manager.cache, range(4))
    manager.allocate(0, 10, manager.cache.match_prefix(Key.of(range(10))))
    assert manager.checkpoint(0, data, 10) == 8
    for sample in (1, 2, 3):
        manager.fork(0, sample)
    assert held(manager) == 1 and manager.pool.num_cached == 2
    assert len(manager.append_slots(range(4))) == 3
    for sample in (2, 0, 3, 1):
        tokens = token_bytes([*range(10), 90 + sample, 0])
        assert manager.checkpoint(sample, tokens, 11) == 8
        manager.free(sample)
    assert manager.pool.num_held == 0 and manager.cache.evictable_size == 8


def test_a_checkpoint_stops_before_what_a_fork_holds():
    manager = manager_of(20, 2)
    manager.allocate("a", 6)
    manager.fork("a", "b")
    assert manager.checkpoint("a", token_bytes(range(6)), 6) == 0
    manager.free("b")
    assert manager.checkpoint("a", token_bytes(range(6)), 5) == 4
    assert hit(manager.cache, range(6)) == 4


def test_pages_computed_twice_are_replaced_before_they_are_freed():
    """Two sequences prefill one prompt; one stores it, the other checkpoints, a third allocates: the second's
    table points at the tree's pages, and the third shares nothing with it."""
    manager = manager_of(12)
    data = token_bytes(range(6))
    manager.allocate("a", 6)
    manager.allocate("b", 6)
    manager.checkpoint("a", data, 6)
    assert manager.checkpoint("b", data, 6) == 6
    assert manager.table("b").pages.tolist() == manager.table("a").pages.tolist()
    manager.allocate("c", 6)
    assert set(manager.table("b").pages.tolist()).isdisjoint(manager.table("c").pages.tolist())
    assert manager.cache.stats.duplicate_tokens == 6
    for name in "abc":
        manager.free(name)
    assert manager.pool.num_free == 6 and manager.cache.evictable_size == 6


def test_a_fork_of_whole_pages_may_be_shorter_than_its_parent():
    manager = manager_of(20, 4, cached=False)
    manager.allocate("a", 11)
    manager.fork("a", "b", 8)
    assert manager.table("b").pages.tolist() == manager.table("a").pages[:2].tolist()
    assert manager.append_slots(["b"]) == []
    for length in (9, 16, -4):
        with refused("K701"):
            manager.fork("a", "c", length)
    manager.fork("a", "c", 11)
    manager.free("a")
    assert held(manager) == 4


def test_block_tables_are_int32_and_padded():
    manager = manager_of(10, 4, cached=False)
    manager.allocate("a", 9)
    manager.allocate("b", 4)
    table = manager.block_tables("ab", padding=-1, width=5)
    assert table.dtype == torch.int32 and table.shape == (2, 5)
    assert table[0].tolist() == [*manager.table("a").pages.tolist(), -1, -1]
    assert table[1].tolist() == [*manager.table("b").pages.tolist(), -1, -1, -1, -1]
    assert manager.block_tables([]).shape == (0, 0)


def test_slots_follow_the_table():
    manager = manager_of(10, 4, cached=False)
    manager.allocate("a", 9)
    pages = manager.table("a").pages
    assert manager.slots("a", 3, 6).tolist() == [pages[0] * 4 + 3, pages[1] * 4, pages[1] * 4 + 1]
    assert manager.slots("a", 0, 9).dtype == np.int64
    with refused("K701", "outside the 9"):
        manager.slots("a", 5, 10)


def test_ids_and_sizes_that_mean_nothing_are_refused():
    manager = manager_of(10, 4)
    manager.allocate("a", 4)
    for act, code in [
        (lambda: manager.allocate("a", 4), "K705"),
        (lambda: manager.fork("a", "a"), "K705"),
        (lambda: manager.fork("x", "b"), "K705"),
        (lambda: manager.free("x"), "K705"),
        (lambda: manager.append_slots(["a", "a"]), "K705"),
        (lambda: manager.append_slots(["a"], -1), "K701"),
        (lambda: manager.allocate("b", -1), "K701"),
        (lambda: manager.room_for(-1), "K701"),
        (lambda: manager.checkpoint("a", token_bytes(range(4)), 5), "K701"),
        (lambda: manager.swap_in(["a"]), "K705"),
    ]:
        with refused(code):
            act()
    manager.free("a")
    with refused("K705", "does not exist"):
        manager.free("a")
    assert manager.pool.num_free == 10
    with refused("K701", "watermark"):
        BlockManager(PagePool(4), 4, watermark=1.0)
    with refused("K701", "same pool"):
        BlockManager(PagePool(4), 4, RadixCache(PagePool(4), 4))


def test_a_failed_allocation_leaves_no_lock_behind():
    manager = manager_of(6)
    store(manager.cache, range(4))
    with refused("K702"):
        manager.allocate("a", 9, manager.cache.match_prefix(Key.of(range(9))))
    assert manager.cache.evictable_size == 4 and not manager.cache.locks
