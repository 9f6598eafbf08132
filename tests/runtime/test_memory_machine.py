"""Allocator, radix tree and block tables under random operations; every invariant is looked at after each."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgen.runtime.policies import POLICIES
from tests.runtime.memory_world import MemoryWorld, step


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    draw=st.randoms(use_true_random=False),
    shape=st.sampled_from([(24, 1), (12, 2), (40, 4), (9, 3)]),
    policy=st.sampled_from(sorted(POLICIES)),
    steps=st.integers(1, 60),
)
def test_short_runs_with_everything_checked_after_each_operation(draw, shape, policy, steps):
    world = MemoryWorld(*shape, policy, check=True)
    for _ in range(steps):
        step(world, draw)
        world.verify()
    world.finish()


@pytest.mark.parametrize(("shape", "policy"), [((30, 1), "lru"), ((16, 3), "lfu")])
def test_a_long_run_leaks_nothing(shape, policy):
    long_run(3000, shape, policy, every=100)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("shape", [(60, 1), (40, 4)])
def test_a_million_operations_leak_nothing(shape, policy):
    long_run(125_000, shape, policy, every=1000)


def long_run(steps: int, shape: tuple[int, int], policy: str, every: int) -> None:
    draw = random.Random(f"{shape} {policy}")
    world = MemoryWorld(*shape, policy, check=False)
    for number in range(steps):
        step(world, draw)
        if number % every == 0:
            world.verify()
            world.manager.check_integrity()
    world.finish()
