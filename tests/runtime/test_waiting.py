"""Who is admitted, in which order, how long anyone waits, and what is not computed twice."""

import pytest

from kgen.runtime.keys import Key
from kgen.runtime.plan import Branch
from tests.runtime.samples import hit, store
from tests.runtime.scheduler_world import SchedulerWorld
from tests.runtime.test_scheduler import cache_prompt, greedy


def admitted(world: SchedulerWorld, steps: int = 200) -> list:
    """Run, and list the requests in the order they were admitted."""
    world.run(steps)
    return [name for plan in world.plans for name in plan.admitted]


def one_at_a_time(order: str, **more) -> SchedulerWorld:
    return SchedulerWorld(4000, max_sequences=1, max_batch_tokens=2000, order=order, **more)


def occupied(order: str, **more) -> SchedulerWorld:
    """A world whose only place is taken for two steps, so that all that is asked now waits together."""
    world = one_at_a_time(order, **more)
    world.ask("first", [7777], 2, greedy)
    world.run_step()
    return world


def test_longest_prefix_and_hit_ratio_differ():
    """800 of 1000 tokens cached against 90 of 100."""
    for order, expected in [("longest-prefix", ["long", "short"]), ("hit-ratio", ["short", "long"])]:
        world = occupied(order)
        cache_prompt(world, range(800))
        cache_prompt(world, range(2000, 2090))
        world.ask("short", range(2000, 2100), 1, greedy)
        world.ask("long", range(1000), 1, greedy)
        assert admitted(world)[1:] == expected, order


def test_first_come_first_served_looks_at_nothing_else():
    world = occupied("fcfs")
    cache_prompt(world, range(50))
    world.ask("cold", [900, 901], 1, greedy)
    world.ask("hot", range(51), 1, greedy, priority=9)
    assert admitted(world)[1:] == ["cold", "hot"]


def test_depth_first_by_weight_keeps_a_branch_together():
    world = SchedulerWorld(100, order="dfs-weight")
    cache_prompt(world, [1, 2, 3])
    cache_prompt(world, [1, 2, 4])
    cache_prompt(world, [5, 6])
    for name, prompt in [
        ("lone", [5, 6, 0]),
        ("x1", [1, 2, 4, 10]),
        ("y", [1, 2, 3, 11]),
        ("x2", [1, 2, 4, 12]),
        ("top", [1, 2, 13]),
    ]:
        world.ask(name, prompt, 1, greedy)
    assert world.run_step().admitted == ("x1", "x2", "y", "top", "lone")


def test_ties_go_to_the_older_request():
    for order in ("longest-prefix", "hit-ratio", "dfs-weight", "priority", "fcfs"):
        world = occupied(order)
        for number in range(5):
            world.ask(number, [100 + number, 1], 1, greedy)
        assert admitted(world)[1:] == [0, 1, 2, 3, 4], order


def test_depth_first_over_an_empty_cache_is_first_come_first_served():
    world = SchedulerWorld(100, order="dfs-weight")
    for number in range(5):
        world.ask(number, [100 * number, 1], 1, greedy)
    assert world.run_step().admitted == (0, 1, 2, 3, 4)


def test_looking_at_waiting_requests_leaves_the_cache_as_it_was():
    world = one_at_a_time("longest-prefix")
    world.ask("first", [7777], 9, greedy)
    world.run_step()
    cache_prompt(world, [1, 2, 3])
    cache_prompt(world, [4, 5, 6])
    for number in range(5):
        world.ask(number, [1, 2, 10 + number], 1, greedy)
    before = [entry[:2] for entry in world.cache.tree.leaves], world.cache.stats
    for _ in range(5):
        world.run_step()
    assert before == ([entry[:2] for entry in world.cache.tree.leaves], world.cache.stats)


@pytest.mark.parametrize("order", ["longest-prefix", "hit-ratio", "dfs-weight", "priority"])
@pytest.mark.parametrize("bound", [0, 1, 7])
def test_endless_preferred_arrivals_do_not_starve_a_cold_request(order, bound):
    world = occupied(order, max_bypass=bound)
    cache_prompt(world, range(100))
    world.ask("cold", [900, 901, 902], 1, greedy)
    number = 0
    while "cold" not in world.finished:
        for _ in range(2):
            world.ask(number, [*range(100), 1000 + number], 1, greedy, priority=1)
            number += 1
        world.run_step()
        assert number < 100
    names = [name for plan in world.plans for name in plan.admitted]
    ahead = names[: names.index("cold")]
    assert sum(isinstance(name, int) for name in ahead) == bound


def test_many_admissions_in_one_step_keep_to_the_bound():
    world = SchedulerWorld(400, max_sequences=9, max_bypass=3)
    cache_prompt(world, range(50))
    world.ask("cold", [900, 901], 1, greedy)
    for number in range(8):
        world.ask(number, [*range(50), 100 + number], 1, greedy)
    assert world.run_step().admitted == (0, 1, 2, "cold", 3, 4, 5, 6, 7)


def test_an_urgent_request_that_does_not_fit_is_not_overtaken():
    """The cold request needs more memory than is free; small hot ones would go in, and none does."""
    world = SchedulerWorld(60, max_bypass=2)
    cache_prompt(world, range(5))
    world.ask("holder", [800] * 20, 30, greedy)
    world.run_step()
    world.ask("cold", [900 + place for place in range(40)], 1, greedy)
    for number in range(9):
        world.ask(number, [*range(5), 100 + number], 1, greedy)
    assert [world.run_step().admitted for _ in range(4)] == [(0, 1), (), (), ()]
    world.run()
    names = [name for plan in world.plans for name in plan.admitted]
    assert names[:4] == ["holder", 0, 1, "cold"]
    world.at_rest()


def test_an_urgent_request_behind_a_swapped_one_is_not_overtaken_either():
    world = SchedulerWorld(30, order="priority", max_bypass=0, host_pages=30)
    world.ask("middle", [1] * 10, 9, greedy, priority=5)
    world.run_step()
    cache_prompt(world, range(100, 120))
    world.cache.pin(world.cache.match_prefix(Key.of(list(range(100, 120)))), 60.0)
    world.scheduler.retract("middle", "swap")
    world.run_step()
    world.ask("urgent", [2, 3], 2, greedy)
    world.ask("hot", [4, 5], 2, greedy, priority=9)
    assert world.scheduler.jobs.swapped and world.run_step().admitted == ()
    world.clock.advance(60.0)
    world.run()
    world.at_rest()


def test_a_preempted_request_comes_before_those_that_never_ran():
    world = one_at_a_time("longest-prefix")
    world.ask("again", [1] * 5, 5, greedy)
    world.run_step()
    world.scheduler.retract("again")
    world.cache.evict(100)
    cache_prompt(world, range(50, 60))
    world.ask("hot", range(50, 61), 1, greedy)
    assert admitted(world) == ["again", "again", "hot"]


def test_only_the_oldest_requests_are_put_in_order():
    world = occupied("longest-prefix", order_window=2)
    cache_prompt(world, range(50))
    for number in range(3):
        world.ask(number, [900 + number], 1, greedy)
    world.ask("hot", range(51), 1, greedy)
    assert admitted(world)[1:] == [0, 1, "hot", 2]


def test_a_priority_counts_however_many_wait_before_it():
    world = occupied("priority", order_window=2)
    for number in range(5):
        world.ask(number, [900 + number], 1, greedy)
    world.ask("high", [1], 1, greedy, priority=1)
    assert world.run_step().admitted == ("high",)
    world.run()


def test_the_second_of_two_equal_prompts_waits_for_the_first_ones_kv():
    world = SchedulerWorld(200)
    world.ask("a", range(20), 3, greedy)
    world.ask("b", range(20), 3, greedy)
    assert [chunk.request_id for chunk in world.run_step().prefills] == ["a"]
    plan = world.run_step()
    assert [(chunk.request_id, chunk.start) for chunk in plan.prefills] == [("b", 19)]
    assert world.scheduler.totals.prefill_tokens == 21
    world.run()


def test_it_waits_chunk_by_chunk_and_never_reads_what_is_not_written():
    world = SchedulerWorld(200, max_chunk=8, share_min=4)
    world.ask("a", range(30), 2, greedy)
    world.ask("b", [*range(24), 99, 98], 2, greedy)
    starts = []
    while "b" not in world.finished:
        starts += [(c.request_id, c.start) for c in world.run_step().prefills]
    assert starts == [("a", 0), ("a", 8), ("a", 16), ("a", 24), ("b", 24)]


def test_a_beginning_too_short_to_wait_for_is_computed_twice():
    world = SchedulerWorld(200, share_min=8)
    world.ask("a", range(20), 2, greedy)
    world.ask("b", [*range(7), *range(50, 63)], 2, greedy)
    assert [chunk.request_id for chunk in world.run_step().prefills] == ["a", "b"]
    assert world.cache.stats.duplicate_tokens == 7
    world.run()
    world.at_rest()


def test_nobody_waits_for_what_will_not_be_stored():
    world = SchedulerWorld(200)
    world.ask("a", range(20), 2, greedy, insert=False)
    world.ask("b", range(20), 2, greedy)
    assert len(world.run_step().prefills) == 2
    world.run()


def test_when_the_first_is_aborted_the_second_computes_the_prompt():
    world = SchedulerWorld(200, max_chunk=6)
    world.ask("a", range(20), 3, greedy)
    world.ask("b", range(20), 3, greedy)
    world.run_step()
    world.scheduler.abort("a")
    (chunk,) = world.run_step().prefills
    assert (chunk.request_id, chunk.start) == ("b", 6)
    world.run()
    world.at_rest()


def test_a_prefix_evicted_while_its_request_waits_is_matched_again():
    world = occupied("longest-prefix")
    cache_prompt(world, range(50))
    world.ask("a", range(51), 1, greedy)
    world.run_step()
    world.cache.evict(4000)
    assert hit(world.cache, range(51)) == 0
    world.run()
    assert world.records["a"].cached_tokens == 0  # 51 tokens were computed, not 1 over freed pages
    world.at_rest()


def test_admission_looks_at_the_whole_prompt_not_its_first_chunk():
    """A pool of 100; four residents in mid-prefill that need 22 each, and a fifth that needs 20: it waits,
    though its first chunk would fit."""
    world = SchedulerWorld(100, max_batch_tokens=16, max_chunk=4, order="fcfs")
    for number in range(4):
        world.ask(number, [number * 100 + place for place in range(22)], 1, greedy)
    world.ask("fifth", range(500, 520), 1, greedy)
    for _ in range(2):
        plan = world.run_step()
    assert len(plan.prefills) == 4 and world.pool.num_free == 12
    assert world.scheduler.num_waiting == 1
    world.run()
    assert all(record.preemptions == 0 for record in world.records.values())
    world.at_rest()


def test_a_high_priority_gets_a_place_in_a_full_batch():
    world = SchedulerWorld(200, max_sequences=2, order="priority")
    for number in range(3):
        world.ask(number, [number] * 5, 9, greedy, priority=number)
    world.run_step()
    assert set(world.scheduler.jobs.running) == {1, 2}
    world.ask("urgent", [50, 51], 2, greedy, priority=7)
    plan = world.run_step()
    assert plan.preempted == (1,) and plan.admitted == ("urgent",)
    assert {row.request_id for row in plan.rows} == {2, "urgent"}
    world.run()
    world.at_rest()


def test_a_high_priority_gets_memory_that_lower_ones_hold():
    world = SchedulerWorld(40, order="priority")
    world.ask("low", [1] * 25, 10, greedy)
    world.run_step()
    world.ask("high", [2] * 25, 5, greedy, priority=1)
    plan = world.run_step()
    assert plan.preempted == ("low",) and plan.admitted == ("high",)
    world.run()
    assert world.records["low"].preemptions == 1 and world.records["high"].preemptions == 0
    world.at_rest()


def test_nobody_is_preempted_for_a_priority_that_has_to_wait_for_an_urgent_request():
    world = SchedulerWorld(200, max_sequences=1, order="priority", max_bypass=1)
    world.ask("cold", [2] * 5, 2, greedy)
    world.ask("warm", [1] * 5, 4, greedy, priority=1)
    world.run_step()
    world.ask("high", [3] * 5, 2, greedy, priority=9)
    assert world.run_step().preempted == ()
    world.run()
    names = [name for plan in world.plans for name in plan.admitted]
    assert names == ["warm", "cold", "high"]


def test_who_got_in_because_it_was_urgent_is_not_preempted_for_a_priority():
    world = SchedulerWorld(200, max_sequences=1, order="priority", max_bypass=1)
    world.ask("cold", [1] * 5, 5, greedy)
    world.ask(0, [2] * 5, 2, greedy, priority=1)
    world.run_step()
    world.ask(1, [3] * 5, 2, greedy, priority=1)
    world.run()
    names = [name for plan in world.plans for name in plan.admitted]
    assert names == [0, "cold", 1] and not any(plan.preempted for plan in world.plans)


def test_nobody_is_preempted_for_a_priority_that_would_not_fit_anyway():
    world = SchedulerWorld(40, order="priority", max_sequences=3)
    world.ask("same", [1] * 15, 10, greedy, priority=5)
    world.ask("low", [3] * 5, 5, greedy)
    world.run_step()
    world.ask("high", [2] * 30, 5, greedy, priority=5)
    world.ask("wide", [2] * 3, 3, width=3, priority=5)
    assert world.run_step().preempted == ()
    world.run()
    world.at_rest()


def test_a_request_for_many_samples_keeps_places_for_them():
    def four(rows, request):
        return [[Branch(n) for n in range(1, 5)]] if len(rows) == 1 else [[Branch(1)] for _ in rows]

    world = SchedulerWorld(100, max_sequences=4)
    world.ask("one", [1, 2], 3, greedy)
    world.run_step()
    world.ask("four", [3, 4], 3, four, width=4)
    assert world.run_step().admitted == ()
    world.run()
    assert len(world.finished["four"]) == 4
    store(world.cache, [1])
