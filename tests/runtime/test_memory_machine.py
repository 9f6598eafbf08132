"""Allocator, radix tree and block tables under random operations; every invariant is looked at after each."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kgen.runtime.keys import Key
from kgen.runtime.policies import POLICIES
from tests.runtime.memory_world import SPACES, MemoryWorld, step

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=14)


class MemoryMachine(RuleBasedStateMachine):
    """Sequences that are admitted, grow, fork, are stored, swapped and freed over one pool."""

    world: MemoryWorld

    @initialize(
        shape=st.sampled_from([(24, 1), (12, 2), (40, 4), (9, 3)]), policy=st.sampled_from(sorted(POLICIES))
    )
    def begin(self, shape, policy):
        self.world = MemoryWorld(*shape, policy, check=True)

    def some(self, data, names, most: int) -> list:
        return data.draw(st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=most, unique=True))

    @rule(tokens=TOKENS, space=st.sampled_from(SPACES))
    def admit(self, tokens, space):
        self.world.admit(tokens, space)

    @precondition(lambda self: self.world.prefixes)
    @rule(data=st.data(), tail=TOKENS)
    def admit_what_begins_as_something_stored(self, data, tail):
        space, prefix = data.draw(st.sampled_from(sorted(self.world.prefixes, key=str)))
        self.world.admit([*prefix, *tail], space)

    @precondition(lambda self: self.world.sequences)
    @rule(data=st.data(), draw=st.randoms(use_true_random=False))
    def append(self, data, draw):
        self.world.append(self.some(data, self.world.sequences, 4), draw)

    @precondition(lambda self: self.world.sequences)
    @rule(data=st.data())
    def fork(self, data):
        self.world.fork(*self.some(data, self.world.sequences, 1))

    @precondition(lambda self: self.world.sequences)
    @rule(data=st.data())
    def checkpoint(self, data):
        self.world.checkpoint(*self.some(data, self.world.sequences, 1))

    @precondition(lambda self: self.world.sequences or self.world.away)
    @rule(data=st.data())
    def free(self, data):
        self.world.free(*self.some(data, [*self.world.sequences, *self.world.away], 1))

    @precondition(lambda self: self.world.sequences)
    @rule(data=st.data())
    def swap_out(self, data):
        self.world.swap_out(self.some(data, self.world.sequences, 3))

    @precondition(lambda self: self.world.away)
    @rule(data=st.data())
    def swap_in(self, data):
        self.world.swap_in(self.some(data, self.world.away, 1))

    @rule(count=st.integers(0, 8))
    def evict(self, count):
        self.world.cache.evict(count)

    @rule(tokens=TOKENS, space=st.sampled_from(SPACES), seconds=st.floats(0, 5))
    def pin(self, tokens, space, seconds):
        self.world.cache.pin(self.world.cache.match_prefix(Key.of(tokens, space)), seconds)

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds):
        self.world.clock.advance(seconds)

    @invariant()
    def everything_reads_its_own(self):
        if hasattr(self, "world"):
            self.world.verify()

    def teardown(self):
        if hasattr(self, "world"):
            self.world.finish()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize(("shape", "policy"), [((30, 1), "lru"), ((16, 3), "lfu")])
def test_a_long_run_leaks_nothing(shape, policy):
    long_run(6000, shape, policy, every=100)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("shape", [(60, 1), (40, 4)])
def test_a_million_operations_leak_nothing(shape, policy):
    long_run(125_000, shape, policy, every=5)


def long_run(steps: int, shape: tuple[int, int], policy: str, every: int) -> None:
    draw = random.Random(f"{shape} {policy}")
    world = MemoryWorld(*shape, policy, check=False)
    for number in range(steps):
        step(world, draw)
        if number % every == 0:
            world.verify()
            world.manager.check_integrity()
    world.finish()
