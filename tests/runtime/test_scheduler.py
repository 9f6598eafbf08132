"""The scheduler: one request's whole life, batches, chunks, forks, and requests that end early."""

import numpy as np
import pytest

from kgen.runtime.keys import Namespace
from kgen.runtime.plan import Branch
from kgen.runtime.request import Request, SchedulerConfig
from kgen.runtime.tables import token_slots
from tests.runtime.memory import kv_of
from tests.runtime.samples import hit, refused, store
from tests.runtime.scheduler_world import SchedulerWorld, beam, foretold, token_after


def greedy(rows, request):
    """One token each, never a stop."""
    return [[Branch(token_after(row))] for row in rows]


def cache_prompt(world: SchedulerWorld, tokens) -> None:
    """A prompt whose KV is in memory from before."""
    tokens = list(tokens)
    pages = store(world.cache, tokens)
    world.device.write(
        token_slots(pages, world.manager.block_size, 0, len(pages) * world.manager.block_size),
        kv_of(tokens),
    )


def locks(world: SchedulerWorld) -> list[int]:
    found = []
    pending = [child for root in world.cache.tree.roots.values() for child in root.children.values()]
    while pending:
        node = pending.pop()
        found.append(node.lock_ref)
        pending += node.children.values()
    return found


def test_a_prompt_of_1000_tokens_of_which_800_are_cached():
    world = SchedulerWorld(2000, max_batch_tokens=4096)
    cache_prompt(world, range(800))
    world.ask("a", range(1000), 5, greedy)
    (chunk,) = world.run_step().prefills
    assert (chunk.start, len(chunk.tokens), len(chunk.slots), chunk.samples) == (800, 200, 200, True)
    assert len(token_slots(chunk.pages, 1, 0, chunk.seq_len)) == 1000
    assert hit(world.cache, range(1000)) == 1000  # stored after the prefill, and the lock is at its end
    assert locks(world) == [1, 1] and world.cache.protected_size == 1000
    for _ in range(4):
        (row,) = world.run_step().decodes
    assert row.seq_len == 1004
    assert world.pool.num_cached == 1000 + 5 - 1 and set(locks(world)) == {0}
    world.at_rest()


def test_the_last_output_token_has_no_kv_and_is_not_cached():
    """500 tokens, 200 of output, then a prompt of 800 that goes on: 699 hit, 101 are computed."""
    world = SchedulerWorld(1000, max_batch_tokens=1000)
    world.ask("first", range(500), 200, greedy)
    world.run()
    answer = world.finished["first"][0]
    assert len(answer) == 200
    world.ask("second", [*range(500), *answer, *range(900, 1000)], 1, greedy)
    (chunk,) = world.run_step().prefills
    assert (chunk.start, len(chunk.tokens)) == (699, 101)
    assert world.records["second"].cached_tokens == 699


def test_a_prompt_that_is_cached_whole_computes_its_last_token():
    world = SchedulerWorld(100)
    cache_prompt(world, range(12))
    world.ask("a", range(12), 1, greedy)
    (chunk,) = world.run_step().prefills
    assert (chunk.start, chunk.tokens.tolist(), chunk.samples) == (11, [11], True)


def test_by_page_a_cached_prompt_computes_its_last_page():
    world = SchedulerWorld(100, page_size=4)
    cache_prompt(world, range(12))
    world.ask("a", range(12), 1, greedy)
    (chunk,) = world.run_step().prefills
    assert (chunk.start, len(chunk.tokens)) == (8, 4)


def test_chunks_are_as_long_as_the_budget_and_only_the_last_samples():
    world = SchedulerWorld(200, max_batch_tokens=16, max_chunk=10)
    world.ask("a", range(25), 2, greedy)
    shapes = [
        [(chunk.start, len(chunk.tokens), chunk.samples) for chunk in world.run_step().prefills]
        for _ in range(3)
    ]
    assert shapes == [[(0, 10, False)], [(10, 10, False)], [(20, 5, True)]]


def test_decode_rows_come_before_chunks_and_share_the_budget():
    world = SchedulerWorld(200, max_batch_tokens=8, max_sequences=8, order="fcfs")
    world.ask("a", range(5), 9, greedy)
    world.ask("b", [1] * 20, 2, greedy)
    assert [len(c.tokens) for c in world.run_step().prefills] == [5, 3]
    plan = world.run_step()
    assert [row.request_id for row in plan.decodes] == ["a"]
    assert [(c.request_id, len(c.tokens)) for c in plan.prefills] == [("b", 7)]
    world.run()
    world.at_rest()


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("cached", [True, False])
def test_outputs_do_not_depend_on_pages_chunks_or_the_cache(page_size, chunk, cached):
    world = SchedulerWorld(200, page_size=page_size, cached=cached, max_chunk=chunk)
    for number in range(6):
        world.ask(number, [*range(10), number], 8)
        world.ask(number + 100, [*range(10), number], 6, beam, width=3)
    world.run()
    assert len(world.finished) == 12  # each was compared with what the model says alone
    world.at_rest()


def test_two_hundred_decodes_give_every_page_back():
    world = SchedulerWorld(300)
    world.ask("a", range(7), 200, greedy)
    world.run()
    assert world.scheduler.totals.decode_tokens == 199
    assert world.pool.num_free + world.cache.evictable_pages == 300
    world.at_rest()


def test_parallel_samples_take_no_page_when_they_fork():
    world = SchedulerWorld(40, page_size=4)
    world.ask("a", range(10), 6, width=4)
    world.run_step()
    assert world.pool.num_held == 1 and world.pool.num_cached == 2
    plan = world.run_step()
    alive = len(plan.decodes)
    assert alive > 1 and len(plan.copies) == alive - 1  # the shared last page, but for its last holder
    world.run()
    assert world.finished["a"] == foretold(world.requests["a"][0], world.requests["a"][1])
    world.at_rest()


def test_beams_that_diverge_in_a_page_copy_it_once():
    def two_beams(rows, request):
        if len(rows) == 1:
            return [[Branch(1), Branch(2)]]
        return [[Branch(3)] for _ in rows]

    world = SchedulerWorld(40, page_size=8)
    world.ask("a", range(10), 4, two_beams, width=2)
    world.run_step()
    assert len(world.run_step().copies) == 1
    assert world.run_step().copies == ()
    world.run()
    assert world.finished["a"] == [(1, 3, 3, 3), (2, 3, 3, 3)]


def test_what_a_beam_shares_when_it_forks_late_goes_through_the_cache():
    def late(rows, request):
        if len(rows) == 1 and len(rows[0]) == 13:
            return [[Branch(1), Branch(2)]]
        return [[Branch(3)] for _ in rows]

    world = SchedulerWorld(40, page_size=4)
    world.ask("a", range(6), 12, late, width=2)
    while len(world.scheduler.jobs.running["a"].sequences if world.plans else [1]) == 1:
        world.run_step()
    assert (world.pool.num_cached, world.pool.num_held) == (3, 1)
    world.run()
    world.at_rest()


def test_a_beam_that_dies_gives_its_pages_back_and_is_not_cached():
    def second_dies(rows, request):
        if len(rows) == 1 and len(rows[0]) == 4:
            return [[Branch(1), Branch(2)]]
        return (
            [[Branch(3), Branch(4)], []]
            if len(rows) == 2 and len(rows[0]) == 6
            else [[Branch(3)] for _ in rows]
        )

    world = SchedulerWorld(40)
    world.ask("a", [9, 8, 7, 6], 5, second_dies, width=2)
    world.run()
    assert world.finished["a"] == [(1, 3, 3, 3, 3), (1, 3, 4, 3, 3)]
    assert hit(world.cache, [9, 8, 7, 6, 2, 3]) == 4
    world.at_rest()


def test_requests_of_other_namespaces_share_nothing():
    world = SchedulerWorld(100)
    for number, namespace in enumerate([Namespace(), Namespace(adapter="a"), Namespace(media=("a",))]):
        world.ask(number, range(10), 1, greedy, namespace=namespace)
        (chunk,) = world.run_step().prefills
        assert chunk.start == 0


def test_a_request_that_is_not_to_be_cached_gets_through_its_chunks():
    world = SchedulerWorld(30, max_batch_tokens=16, max_chunk=4)
    world.ask("a", range(20), 3, greedy, insert=False)
    starts = [world.run_step().prefills[0].start for _ in range(5)]
    assert starts == [0, 4, 8, 12, 16]
    world.run()
    assert world.pool.num_free == 30  # nothing was stored
    world.at_rest()


@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("insert", [True, False])
def test_an_abort_at_any_step_leaks_nothing(steps, insert):
    world = SchedulerWorld(60, page_size=4, max_batch_tokens=16, max_chunk=5)
    cache_prompt(world, range(4))
    world.ask("a", range(23), 6, width=2, insert=insert)
    for _ in range(steps):
        if world.scheduler.has_work:
            world.run_step()
    if world.scheduler.has_work:
        world.scheduler.abort("a")
    assert not world.scheduler.has_work
    world.at_rest()


def test_an_abort_during_a_step_ends_the_request_and_the_step_goes_on():
    world = SchedulerWorld(60)
    world.ask("a", range(5), 6, greedy)
    world.ask("b", [9] * 5, 6, greedy)
    plan = world.plan()
    world.execute(plan)
    results = world.results(plan)
    world.scheduler.abort("a")
    world.ask("a", range(7), 2, greedy)  # the id is free again
    outcome = world.scheduler.commit(results)
    assert [token.request_id for token in outcome.tokens] == ["b"]
    world.scheduler.abort("b")
    world.run()
    world.at_rest()


def test_a_step_that_failed_is_computed_again():
    world = SchedulerWorld(60, page_size=2, max_chunk=6)
    world.ask("a", range(10), 4, width=2)
    world.run_step()
    world.plan()
    world.discard()
    assert world.scheduler.num_running == 0
    (chunk,) = world.run_step().prefills
    assert chunk.start == 6  # the chunk that was committed is in the cache
    world.run()
    world.at_rest()


def test_calls_out_of_turn_are_refused_and_change_nothing():
    world = SchedulerWorld(60)
    scheduler = world.scheduler
    with refused("K707", "no step to commit"):
        scheduler.commit({})
    with refused("K707", "no step to discard"):
        scheduler.discard()
    world.ask("a", range(5), 4, greedy, width=2)
    plan = world.plan()
    (chunk,) = plan.prefills
    one, other = Branch(1), Branch(2)
    for act, words in [
        (scheduler.schedule, "is not committed"),
        (lambda: scheduler.retract("a"), "a step is under way"),
        (lambda: scheduler.commit({}), "has no token"),
        (lambda: scheduler.commit({chunk.seq_id: [one], 99: [one]}), "99 was not sampled"),
        (lambda: scheduler.commit({chunk.seq_id: [one, other, one]}), "may have 2 sequences and gets 3"),
    ]:
        with refused("K707", words):
            act()
    scheduler.commit({chunk.seq_id: [one, other]})
    for act in (lambda: scheduler.abort("x"), lambda: scheduler.retract("x")):
        with refused("K706", "no request 'x'"):
            act()
    with refused("K701", "no preemption"):
        scheduler.retract("a", "forget")


def test_requests_that_could_never_run_are_refused():
    world = SchedulerWorld(10, page_size=4, watermark=0.1, max_sequences=4)
    world.ask("a", range(20), 16)  # 36 tokens in the 9 pages above the watermark
    for request, words in [
        (Request("b", range(20), 17), "needs up to 10 pages and there are 9"),
        (Request("b", range(18), 9, width=2), "needs up to 10 pages"),
        (Request("b", [1], 1, width=5), "wants 5 sequences"),
        (Request("a", [1], 1), "under way already"),
    ]:
        with refused("K706", words):
            world.scheduler.submit(request)
    with refused("K706", "empty prompt"):
        Request("c", [], 4)
    for wrong in ({"max_new_tokens": 0}, {"max_new_tokens": 4, "width": 0}):
        with refused("K701"):
            Request("c", [1], **wrong)
    world.run()


def test_settings_that_mean_nothing_are_refused():
    for settings, words in [
        ({"order": "longest-prefx"}, "did you mean 'longest-prefix'"),
        ({"preemption": "drop"}, "recompute, swap"),
        ({"max_batch_tokens": 4}, "cannot hold 256 decoding sequences"),
        ({"max_chunk": 0}, "max_chunk is 0"),
        ({"max_bypass": -1}, "max_bypass is -1"),
    ]:
        with refused("K701", words):
            SchedulerConfig(**settings)


def test_a_plan_is_frozen():
    world = SchedulerWorld(20)
    world.ask("a", range(5), 3, greedy)
    plan = world.plan()
    (chunk,) = plan.prefills
    for array in (chunk.tokens, chunk.slots, chunk.pages):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        plan.number = 3
    assert chunk.tokens.dtype == chunk.pages.dtype == np.int32 and chunk.slots.dtype == np.int64


def test_times_are_the_schedulers_own():
    world = SchedulerWorld(100)
    world.ask("a", range(5), 3, greedy)
    for _ in range(3):
        world.clock.advance(2.0)
        world.run_step()
    record = world.records["a"]
    assert (record.arrived, record.admitted, record.first_token, record.finished) == (0, 2, 2, 6)
