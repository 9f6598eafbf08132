"""The scheduler under random requests, aborts, retractions and failed steps, in memory that is too small."""

import dataclasses
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kgen.diagnostics import KgenError
from kgen.runtime.keys import Key
from kgen.runtime.policies import POLICIES
from kgen.runtime.request import ORDERS, PREEMPTIONS
from tests.runtime.scheduler_world import SchedulerWorld, endless, random_request

SHAPES = [(50, 1), (26, 2), (16, 4), (18, 3)]
MANY = 8


def world_of(draw: random.Random, *, check: bool) -> SchedulerWorld:
    num_pages, page_size = draw.choice(SHAPES)
    return SchedulerWorld(
        num_pages,
        page_size,
        cached=draw.random() < 0.8,
        host_pages=draw.choice([0, 5, 40]),
        watermark=draw.choice([0.0, 0.1]),
        policy=draw.choice(sorted(POLICIES)),
        check=check,
        max_batch_tokens=draw.choice([8, 20]),
        max_sequences=draw.choice([4, 8]),
        max_chunk=draw.choice([None, 3]),
        order=draw.choice(ORDERS),
        max_bypass=draw.choice([0, 3, 64]),
        order_window=draw.choice([2, 128]),
        share_min=draw.choice([1, 4]),
        preemption=draw.choice(PREEMPTIONS),
    )


def under_way(world: SchedulerWorld) -> list:
    return [name for name in world.requests if name not in world.finished]


def submit(world: SchedulerWorld, draw: random.Random, name: object) -> bool:
    request, sampler = random_request(name, draw)
    if draw.random() < 0.1:  # as long as the pool allows
        pages = world.pool.num_pages - world.manager.watermark_pages
        most = pages * world.manager.block_size - len(request.prompt)
        request, sampler = dataclasses.replace(request, max_new_tokens=most, width=1), endless
    try:
        world.submit(request, sampler)
    except KgenError as error:
        assert error.diagnostics[0].code == "K706"
        return False
    return True


def abort(world: SchedulerWorld, name: object) -> None:
    world.scheduler.abort(name)
    del world.requests[name]


def fail(world: SchedulerWorld, name: object | None) -> None:
    """A step that is planned and never run; a request may be aborted in between."""
    plan = world.plan()
    if not plan.is_empty:
        if name is not None:
            abort(world, name)
        world.discard()


def disturb(world: SchedulerWorld, name: object | None) -> None:
    """A step during which a request is aborted."""
    plan = world.plan()
    if not plan.is_empty:
        world.execute(plan)
        results = world.results(plan)
        if name is not None:
            abort(world, name)
        world.commit(plan, results)


def pin(world: SchedulerWorld, tokens: list[int], seconds: float) -> None:
    if world.cache is not None:
        world.cache.pin(world.cache.match_prefix(Key.of(tokens)), seconds)


def finish(world: SchedulerWorld) -> None:
    world.clock.advance(100)
    world.run()
    world.at_rest()


class SchedulerMachine(RuleBasedStateMachine):
    """Everything that may be asked of a scheduler, between steps and during one."""

    world: SchedulerWorld

    @initialize(draw=st.randoms(use_true_random=False))
    def begin(self, draw):
        self.world = world_of(draw, check=True)
        self.numbers = iter(range(10_000))

    def one(self, data):
        return data.draw(st.sampled_from(under_way(self.world)))

    @precondition(lambda self: len(under_way(self.world)) < MANY)
    @rule(draw=st.randoms(use_true_random=False))
    def submit(self, draw):
        submit(self.world, draw, next(self.numbers))

    @rule(times=st.integers(1, 5), seconds=st.floats(0, 1))
    def run_steps(self, times, seconds):
        self.world.clock.advance(seconds)
        for _ in range(times):
            self.world.run_step()

    @precondition(lambda self: under_way(self.world))
    @rule(data=st.data())
    def abort(self, data):
        abort(self.world, self.one(data))

    @precondition(lambda self: under_way(self.world))
    @rule(data=st.data(), how=st.sampled_from([None, *PREEMPTIONS]))
    def retract(self, data, how):
        self.world.scheduler.retract(self.one(data), how)

    @precondition(lambda self: under_way(self.world))
    @rule(data=st.data(), aborting=st.booleans())
    def fail(self, data, aborting):
        fail(self.world, self.one(data) if aborting else None)

    @precondition(lambda self: under_way(self.world))
    @rule(data=st.data())
    def abort_during_a_step(self, data):
        disturb(self.world, self.one(data))

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=5), seconds=st.floats(0, 1))
    def pin(self, tokens, seconds):
        pin(self.world, tokens, seconds)

    @precondition(lambda self: self.world.cache is not None)
    @rule(count=st.integers(0, 10))
    def evict(self, count):
        self.world.cache.evict(count)

    def teardown(self):
        if hasattr(self, "world"):
            finish(self.world)


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


def play(world: SchedulerWorld, draw: random.Random, steps: int) -> int:
    """Random operations, then whatever is left until it ends; returns how many requests there were."""
    asked = 0
    for number in range(steps):
        choice = draw.randrange(12)
        names = under_way(world)
        one = draw.choice(names) if names else None
        if choice < 3 and len(names) < MANY:
            asked += submit(world, draw, number)
        elif choice == 3 and names and draw.random() < 0.4:
            abort(world, one)
        elif choice == 4 and names:
            world.scheduler.retract(one, draw.choice([None, *PREEMPTIONS]))
        elif choice == 5 and draw.random() < 0.3:
            fail(world, draw.choice([one, None]))
        elif choice == 6:
            pin(world, [draw.randrange(2) for _ in range(4)], draw.random())
        elif choice == 7 and draw.random() < 0.5:
            disturb(world, one)
        else:
            world.clock.advance(draw.random())
            world.run_step()
    finish(world)
    return asked


@pytest.mark.parametrize("seed", range(4))
def test_long_runs_leak_nothing(seed):
    draw = random.Random(seed)
    world = world_of(draw, check=False)
    assert play(world, draw, 1500) > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 60))
def test_very_long_runs_leak_nothing(seed):
    draw = random.Random(seed)
    play(world_of(draw, check=False), draw, 6000)
