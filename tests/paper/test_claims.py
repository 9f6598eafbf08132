"""The published figures come out, and what they come from moves with its inputs."""

import pytest

from kgen.paper.claims import Claim, claims, fork, mean_tail, prefix_hits, shared_prompt
from kgen.paper.hashing import BlockHashes
from kgen.runtime import token_bytes


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.what)
def test_every_figure_is_as_published(claim):
    assert claim.holds, claim


def test_a_figure_that_differs_does_not_hold():
    assert not Claim("x", 3, 4, "").holds


@pytest.mark.parametrize(
    ("length", "block_size", "beams", "held", "copies"),
    [(20, 16, 2, 32, 1), (20, 4, 5, 20, 0), (21, 4, 5, 24, 4), (3, 1, 3, 3, 0)],
)
def test_a_fork_takes_nothing_whatever_its_shape(length, block_size, beams, held, copies):
    assert fork(length, block_size, beams) == (held, 0, copies)


@pytest.mark.parametrize(
    ("shared", "block_size", "hits"),
    [(45, 16, (45, 32)), (47, 8, (47, 40)), (15, 16, (15, 0)), (32, 16, (32, 32))],
)
def test_hits_by_token_and_by_block(shared, block_size, hits):
    assert prefix_hits(shared, block_size) == hits


def test_a_shared_prompt_is_computed_once():
    assert shared_prompt(50, 1) == shared_prompt(50, 7) == 50


def test_a_hash_covers_all_tokens_up_to_its_block():
    hashes = BlockHashes(4)
    hashes.store(token_bytes([1, 2, 3, 4, 5, 6, 7, 8, 9]))
    for tokens, found in [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 9], 8),
        ([1, 2, 3, 4, 5, 6, 7], 4),
        ([1, 2, 3, 0, 5, 6, 7, 8], 0),
        ([5, 6, 7, 8], 0),
    ]:
        assert hashes.hit(token_bytes(tokens)) == found


def test_the_mean_tail_of_lengths_that_end_inside_a_page():
    assert mean_tail(4, 8) == 1.5
    assert mean_tail(4, 1) == 3
