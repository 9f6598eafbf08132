"""Memory that is too small: who gives way, what becomes of its KV, and that outputs stay what they were.

`SchedulerWorld` compares every finished request with what the model says alone.
"""

import pytest

from kgen.runtime.plan import Branch
from tests.runtime.samples import hit
from tests.runtime.scheduler_world import SchedulerWorld, beam, sample
from tests.runtime.test_scheduler import cache_prompt, greedy


def preempted(world: SchedulerWorld) -> list:
    return [name for plan in world.plans for name in plan.preempted]


def test_decoding_that_needs_more_pages_than_there_are_counts_pages_not_tokens():
    """Four sequences at the end of a page, 4 tokens of room needed and 12 free, but in 3 pages."""
    world = SchedulerWorld(11, page_size=4, order="fcfs")
    for number in range(4):
        world.ask(number, [number] * 8, 4, greedy)
    world.run_step()
    assert world.pool.num_free == 3
    world.ask("small", [9], 1, greedy)
    plan = world.run_step()
    assert plan.preempted == (3,) and len(plan.decodes) == 3 and plan.admitted == ()
    world.run()
    world.at_rest()


def test_the_youngest_gives_way_and_comes_back_before_anyone_new():
    world = SchedulerWorld(24, order="fcfs", max_sequences=2)
    world.ask("old", [1] * 8, 10, greedy)
    world.ask("young", [2] * 8, 10, greedy)
    world.ask("new", [3] * 2, 2, greedy)
    world.run()
    names = [name for plan in world.plans for name in plan.admitted]
    assert preempted(world) == ["young"] and names == ["old", "young", "young", "new"]
    world.at_rest()


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_nothing_scheduled_is_preempted_in_the_same_step(preemption, page_size):
    """`SchedulerWorld` looks at each plan: rows within the budget, none of a request that gave way."""
    world = SchedulerWorld(
        48 // page_size, page_size, preemption=preemption, host_pages=48, max_batch_tokens=16, order="fcfs"
    )
    for number in range(6):
        world.ask(number, [number] * 5, 12, greedy)
    world.run()
    assert len(preempted(world)) > 2
    world.at_rest()


def test_a_recomputed_request_finds_what_it_left_in_the_cache():
    world = SchedulerWorld(100)
    world.ask("a", range(10), 8, greedy)
    for _ in range(4):
        world.run_step()
    world.scheduler.retract("a")
    assert not world.cache.locks and hit(world.cache, range(10)) == 10
    assert world.pool.num_cached == 13  # the prompt and three outputs; the fourth has no KV
    plan = world.run_step()
    assert plan.admitted == ("a",) and not plan.prefills and plan.decodes[0].position == 13
    world.run()
    assert world.scheduler.totals.prefill_tokens == 10
    world.at_rest()


def test_a_recomputed_request_whose_kv_was_evicted_starts_from_nothing():
    world = SchedulerWorld(100, max_chunk=5)
    world.ask("a", range(10), 8, greedy)
    for _ in range(5):
        world.run_step()
    world.scheduler.retract("a")
    world.cache.evict(1000)
    starts = [
        (chunk.start, len(chunk.tokens), chunk.samples)
        for _ in range(3)
        for chunk in world.run_step().prefills
    ]
    assert starts == [(0, 5, False), (5, 5, False), (10, 3, False)]
    world.run()
    world.at_rest()


def test_a_recomputed_request_comes_back_only_with_a_page_to_go_on():
    """All of its KV is in the cache, so it needs no page but for its next token, and there is none."""
    world = SchedulerWorld(22)
    world.ask("a", range(10), 8, greedy)
    for _ in range(3):
        world.run_step()
    world.scheduler.retract("a")
    cache_prompt(world, range(100, 110))
    pinned = world.cache.pin(world.cache.match_prefix(_key(range(100, 110))), 60.0)
    for _ in range(2):
        plan = world.run_step()
        assert plan.admitted == plan.preempted == ()
    world.cache.unlock(pinned)
    assert world.run_step().admitted == ("a",)
    world.run()
    assert world.records["a"].preemptions == 1
    world.at_rest()


def test_a_prefill_retracted_between_chunks_leaves_no_page_owned_twice():
    world = SchedulerWorld(60, page_size=3, max_chunk=7)
    world.ask("a", range(30), 3, greedy)
    for written in (7, 13, 19):  # what did not fill a page is computed again
        world.run_step()
        assert world.pool.num_cached == written // 3
        world.scheduler.retract("a")
        assert world.pool.num_held == 0 and hit(world.cache, range(30)) == written // 3 * 3
    world.run()
    world.at_rest()


@pytest.mark.parametrize("steps", range(1, 8))
@pytest.mark.parametrize("how", ["recompute", "swap"])
@pytest.mark.parametrize(("width", "sampler"), [(1, greedy), (3, sample), (3, beam)])
@pytest.mark.parametrize("cached", [True, False])
def test_a_retraction_at_any_step_changes_no_output(steps, how, width, sampler, cached):
    world = SchedulerWorld(60, page_size=4, cached=cached, host_pages=60, max_chunk=5)
    world.ask("a", range(11), 7, sampler, width=width, insert=steps % 2 == 0)
    for _ in range(steps):
        if world.scheduler.has_work:
            world.run_step()
    if world.scheduler.has_work:
        world.scheduler.retract("a", how)
        assert world.pool.num_held == 0
    world.run()
    world.at_rest()


def test_forks_that_are_not_cached_share_their_prompt_again_after_recomputing():
    """Three sequences of 16 tokens of prompt in a pool that cannot hold the prompt three times."""
    world = SchedulerWorld(9, page_size=4, cached=False)
    world.ask("a", range(16), 6, beam, width=2)
    for _ in range(3):
        world.run_step()
    world.scheduler.retract("a")
    world.run()
    world.at_rest()


def test_swapping_moves_each_page_once_and_brings_it_back():
    world = SchedulerWorld(60, page_size=4, host_pages=20)
    world.ask("a", range(10), 6, beam, width=3)
    for _ in range(3):
        world.run_step()
    held = {page for table in world.manager.tables.values() for page in table.pages.tolist()}
    world.scheduler.retract("a", "swap")
    assert world.scheduler.num_waiting == 1 and world.scheduler.num_running == 0
    plan = world.run_step()
    assert sorted(source for source, _ in plan.swap_out) == sorted(held)
    assert plan.parked == ("a",) and not plan.swap_in
    plan = world.run_step()
    assert plan.resumed == ("a",) and len(plan.swap_in) == len(held)
    world.run()
    assert world.records["a"].preemptions == 1
    world.at_rest()


def test_a_full_swap_space_means_recomputing():
    world = SchedulerWorld(60, host_pages=4)
    world.ask("a", range(10), 6, greedy)
    world.run_step()
    world.scheduler.retract("a", "swap")
    assert not world.scheduler.jobs.swapped and len(world.scheduler.jobs.waiting) == 1
    world.run()
    world.at_rest()


def test_a_swapped_request_waits_until_all_it_needs_is_free():
    world = SchedulerWorld(30, page_size=1, host_pages=30, order="fcfs")
    world.ask("old", [1] * 5, 14, greedy)
    world.ask("away", [2] * 12, 5, greedy)
    world.run_step()
    world.run_step()
    world.scheduler.retract("away", "swap")
    world.run_step()
    world.ask("new", [3] * 4, 2, greedy)
    plans = [world.run_step() for _ in range(3)]
    assert [plan.resumed for plan in plans] == [("away",), (), ()]  # 13 pages and one to go on
    assert plans[0].admitted == ("new",)
    world.run()
    world.at_rest()


def test_nobody_of_worse_rank_is_admitted_before_a_swapped_request_is_back():
    world = SchedulerWorld(26, host_pages=30, order="fcfs")
    world.ask("old", [1] * 5, 14, greedy)
    world.ask("away", [2] * 12, 5, greedy)
    world.run_step()
    world.scheduler.retract("away", "swap")
    cache_prompt(world, range(100, 108))
    world.cache.pin(world.cache.match_prefix(_key(range(100, 108))), 60.0)
    world.ask("new", [3] * 3, 2, greedy)
    for _ in range(4):
        plan = world.run_step()
        assert not plan.resumed and not plan.admitted
    world.clock.advance(60.0)
    names = []
    while world.scheduler.has_work:
        plan = world.run_step()
        names += [*plan.resumed, *plan.admitted]
    assert names[:2] == ["away", "new"]
    world.at_rest()


def test_an_aborted_swap_copies_nothing():
    world = SchedulerWorld(60, host_pages=20)
    for name in "ab":
        world.ask(name, [ord(name)] * 10, 6, greedy)
    world.run_step()
    world.scheduler.retract("a", "swap")
    world.scheduler.abort("a")
    world.scheduler.retract("b", "swap")
    plan = world.run_step()
    assert plan.parked == ("b",) and len({target for _, target in plan.swap_out}) == 10
    world.run()
    world.at_rest()


def test_a_step_that_failed_while_swapping_loses_no_output_and_caches_no_garbage():
    world = SchedulerWorld(60, host_pages=20)
    world.ask("a", range(10), 6, greedy)
    world.run_step()
    for resumed in (False, True):
        world.scheduler.retract("a", "swap")
        if resumed:
            world.run_step()
        plan = world.plan()
        assert bool(plan.swap_in) == resumed
        world.discard()
        world.run_step()
    world.run()
    world.at_rest()


def test_an_abort_of_what_is_arriving_from_host_memory_caches_no_garbage():
    world = SchedulerWorld(60, host_pages=20)
    world.ask("a", range(10), 6, greedy, insert=True)
    world.run_step()
    world.scheduler.retract("a", "swap")
    world.run_step()
    world.cache.evict(100)
    plan = world.plan()
    assert plan.resumed == ("a",)
    world.scheduler.abort("a")
    world.discard()
    assert hit(world.cache, range(10)) == 0
    world.at_rest()


def test_requests_that_block_each_other_are_untangled():
    """Two requests of two beams each, retracted in the middle, in a pool that holds only one of them."""

    def both(rows, request):
        return [[Branch(1), Branch(2)]] if len(rows) == 1 else [[Branch(3)] for _ in rows]

    world = SchedulerWorld(15, cached=False)
    for name in "ab":
        world.ask(name, [ord(name)] * 3, 6, both, width=2)
    for _ in range(3):
        world.run_step()
    for name in "ab":
        if name in world.scheduler.jobs.running:
            world.scheduler.retract(name)
    world.run(200)
    assert set(world.finished) == {"a", "b"}
    world.at_rest()


def test_requests_that_each_have_half_their_memory_are_untangled():
    """Two requests of two beams, each with one beam in memory and room for no other."""

    def both(rows, request):
        return [[Branch(1), Branch(2)]] if len(rows) == 1 else [[Branch(3)] for _ in rows]

    world = SchedulerWorld(13, cached=False, order="priority")
    jobs = world.scheduler.jobs
    for name, priority in (("low", 0), ("high", 1)):
        world.ask(name, [priority] * 4, 4, both, width=2, priority=priority)
        for _ in range(3):
            world.run_step()
        world.scheduler.retract(name)
    assert len(jobs.waiting) == 2
    for job in list(jobs.waiting):
        assert jobs.residency.bring_in(job, job.sequences[0])
        jobs.start(job, 0.0)
    assert world.pool.num_free == 1
    assert [world.run_step().preempted for _ in range(2)] == [(), ("low",)]
    world.run(200)
    assert set(world.finished) == {"low", "high"}
    world.at_rest()


def test_a_swapped_request_comes_back_though_it_was_as_large_as_may_be():
    for watermark, tokens in ((0.0, 40), (0.1, 36)):
        world = SchedulerWorld(10, page_size=4, host_pages=10, watermark=watermark)
        world.ask("a", range(8), tokens - 8, greedy)
        while world.scheduler.has_work:
            world.run_step()
            if world.scheduler.has_work:
                world.scheduler.retract("a", "swap")
                world.run_step()
                assert world.run_step().resumed == ("a",)
        assert world.records["a"].preemptions == tokens - 8 - 1
        world.at_rest()


def test_a_request_that_forks_late_takes_the_places_of_the_last_in_rank():
    def late(rows, request):
        if len(rows) == 1 and len(rows[0]) == 5:
            return [[Branch(1), Branch(2), Branch(3)]]
        return [[Branch(3)] for _ in rows]

    world = SchedulerWorld(90, max_sequences=3, order="fcfs")
    world.ask("wide", [1, 2], 8, late, width=3)
    world.run_step()
    for name in "ab":
        world.ask(name, [ord(name)] * 4, 8, greedy)
    names = [world.run_step().preempted for _ in range(4)]
    assert names == [(), (), (), ("b", "a")]
    world.run()
    world.at_rest()


def test_a_pin_that_takes_the_room_of_a_request_only_delays_it():
    world = SchedulerWorld(20)
    cache_prompt(world, range(15))
    world.cache.pin(world.cache.match_prefix(_key(range(15))), 60.0)
    world.ask("a", [7] * 10, 3, greedy)
    assert world.run_step().is_empty and world.scheduler.has_work
    world.clock.advance(60.0)
    world.run()
    world.at_rest()


def _key(tokens):
    from kgen.runtime.keys import Key

    return Key.of(list(tokens))
