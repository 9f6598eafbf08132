"""Beam search gives the sequences and scores of transformers' own."""

import itertools
import math

import pytest
import torch

from kgen.engine import GenerateRequest, SamplingParams
from kgen.engine.beams import BeamTrack
from kgen.engine.tracks import Ending
from kgen.runtime import NewToken
from tests.engine.samples import assert_whole, draw_prompts, make_engine, run, run_retracting, stock_tokens

PROMPTS = draw_prompts(17, 48)
STEPS = 14


def stock_beams(llama, prompt, beams, penalty, ends):
    """Sequences without their padding, and scores."""
    tokens, found = stock_tokens(
        llama,
        prompt,
        STEPS,
        num_beams=beams,
        num_return_sequences=beams,
        length_penalty=penalty,
        eos_token_id=ends or None,
    )
    cut = [_until(row, ends) for row in tokens]
    return cut, found.sequences_scores.tolist()


def _until(row, ends):
    stop = next((place for place, token in enumerate(row) if token in ends), len(row) - 1)
    return row[: stop + 1]


@pytest.mark.parametrize("ends", [(), (5, 6, 7, 8, 9, 10, 11, 12)], ids=["to the length", "many end marks"])
@pytest.mark.parametrize(("beams", "penalty"), [(4, 1.0), (2, 0.0), (3, 2.0), (4, -0.5)])
def test_as_transformers(llama, model, beams, penalty, ends):
    engine = make_engine(model, max_chunk=20)
    finishes = set()
    for prompt in PROMPTS:
        expected, scores = stock_beams(llama, prompt, beams, penalty, ends)
        (result,) = run(
            engine, [prompt], max_new_tokens=STEPS, beams=beams, length_penalty=penalty, stop_tokens=ends
        )
        assert [list(each.tokens) for each in result.completions] == expected
        assert [each.score for each in result.completions] == pytest.approx(scores, abs=1e-4)
        finishes |= {each.finish for each in result.completions}
    assert "stop" in finishes if ends else finishes == {"length"}
    assert_whole(engine)


def test_beams_share_the_prompt_and_what_they_have_in_common(model):
    engine = make_engine(model)
    engine.submit(GenerateRequest("x", PROMPTS[1], SamplingParams(max_new_tokens=STEPS, beams=4)))
    peak = 0
    while engine.has_work:
        engine.step()
        peak = max(peak, engine.stats.held_blocks + engine.stats.cached_blocks)
    assert engine.stats.prefill_tokens == len(PROMPTS[1])
    assert peak <= 3 + 4 + 4  # the prompt's pages once, one or two a beam
    assert engine.stats.copied_blocks > 0
    assert_whole(engine)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_beams_survive_preemption(model, preemption):
    (alone,) = run(make_engine(model), PROMPTS[1:], max_new_tokens=STEPS, beams=4)
    engine = make_engine(model, preemption=preemption, host_blocks=30)
    result = run_retracting(
        engine, GenerateRequest("x", PROMPTS[1], SamplingParams(max_new_tokens=STEPS, beams=4)), preemption
    )
    assert [each.tokens for each in result.completions] == [each.tokens for each in alone.completions]
    assert [each.score for each in result.completions] == pytest.approx(
        [each.score for each in alone.completions], abs=1e-4
    )
    assert_whole(engine)


def step(track, fresh, rows):
    """One step by hand: probabilities by sequence, ids for forks; returns the tokens each goes on with."""
    branches = track.propose({seq_id: torch.tensor(row).log() for seq_id, row in rows.items()})
    new = []
    for parent, found in branches.items():
        for place, branch in enumerate(found):
            seq_id = parent if place == len(found) - 1 else next(fresh)
            new.append(NewToken("x", seq_id, parent, branch.token, branch.finish))
    track.settle(new)
    return {seq_id: [branch.token for branch in found] for seq_id, found in branches.items()}


def test_by_hand():
    """Vocabulary 3, where 2 ends. After 0 (0.6) and 1 (0.3), "1 2" has 0.27 and "0 2" 0.06."""
    track = BeamTrack(SamplingParams(beams=2, max_new_tokens=3), Ending(frozenset([2]), None))
    fresh = itertools.count(10)
    assert step(track, fresh, {0: [0.6, 0.3, 0.1]}) == {0: [0, 1]}
    # The beam of 1 ends, and both that go on come from the beam of 0, which is sequence 10.
    assert step(track, fresh, {10: [0.5, 0.4, 0.1], 0: [0.05, 0.05, 0.9]}) == {10: [0, 1], 0: []}
    assert step(track, fresh, {11: [0.9, 0.05, 0.05], 10: [0.4, 0.3, 0.3]}) == {11: [0], 10: [0]}
    best, other = track.completions("abort")
    assert (best.tokens, best.finish) == ((0, 0, 0), "length")
    assert best.score == pytest.approx(math.log(0.6 * 0.5 * 0.9) / 3)
    assert (other.tokens, other.finish) == ((1, 2), "stop")
    assert other.score == pytest.approx(math.log(0.3 * 0.9) / 2)


def test_what_is_aborted_tells_its_beams(model):
    engine = make_engine(model)
    engine.submit(GenerateRequest("x", PROMPTS[0], SamplingParams(max_new_tokens=STEPS, beams=3)))
    for _ in range(4):
        engine.step()
    result = engine.abort("x")
    assert [len(each.tokens) for each in result.completions] == [4, 4, 4]
    scores = [each.score for each in result.completions]
    assert scores == sorted(scores, reverse=True)
    assert_whole(engine)
