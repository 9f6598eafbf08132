"""Choosing tokens: what top_k and top_p leave, how often each is drawn, and that nothing else has a say."""

import pytest
import torch

from kgen.engine import GenerateRequest, SamplingParams
from kgen.engine.sampling import choose, distribution
from tests.engine.samples import (
    VOCABULARY,
    Oracle,
    assert_whole,
    draw_prompts,
    make_engine,
    run,
    run_retracting,
    tokens_of,
)

LOGITS = torch.tensor([0.5, 0.1, 0.25, 0.15]).log()


def kept(**params):
    """Normalised probabilities after the cuts."""
    found = distribution(LOGITS, SamplingParams(temperature=params.pop("temperature", 1.0), **params))
    return (found / found.sum()).tolist()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [0.5, 0.1, 0.25, 0.15]),
        ({"top_k": 2}, [2 / 3, 0, 1 / 3, 0]),
        ({"top_k": 9}, [0.5, 0.1, 0.25, 0.15]),
        ({"top_p": 0.5}, [1, 0, 0, 0]),
        ({"top_p": 0.51}, [2 / 3, 0, 1 / 3, 0]),
        ({"top_p": 0.8}, [0.5 / 0.9, 0, 0.25 / 0.9, 0.15 / 0.9]),
        ({"top_p": 0.001}, [1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.6}, [2 / 3, 0, 1 / 3, 0]),
        ({"temperature": 0.5}, [0.25 / 0.345, 0.01 / 0.345, 0.0625 / 0.345, 0.0225 / 0.345]),
    ],
)
def test_what_is_left(params, expected):
    assert kept(**params) == pytest.approx(expected, abs=1e-6)


def test_top_p_over_a_flat_distribution_larger_than_the_first_look():
    logits = torch.zeros(1000)
    logits[:500] = 1e-3  # 500 tokens are ahead by a hair, and have half of all
    found = distribution(logits, SamplingParams(temperature=1.0, top_p=0.4))
    assert bool((found[:500] > 0).all()) and bool((found[500:] == 0).all())


def test_draws_have_the_probabilities():
    params = SamplingParams(temperature=1.0, seed=11)
    draws = torch.tensor([choose(LOGITS, params, 0, position) for position in range(4000)])
    shares = torch.bincount(draws, minlength=4) / 4000
    torch.testing.assert_close(shares, LOGITS.exp(), atol=0.03, rtol=0)
    other = [choose(LOGITS, params, 1, position) for position in range(40)]
    assert other != draws[:40].tolist()
    assert other == [choose(LOGITS, params, 1, position) for position in range(40)]


def test_a_token_that_was_cut_is_never_drawn():
    params = SamplingParams(temperature=1.0, top_k=2)
    assert {choose(LOGITS, params, 0, position) for position in range(300)} == {0, 2}


PROMPTS = draw_prompts(33, 18, 50)
WARM = {"max_new_tokens": 12, "temperature": 1.0, "top_p": 0.9}


def test_samples_depend_on_seed_and_number_alone(model):
    alone = tokens_of(run(make_engine(model), PROMPTS[:1], n=4, seed=5, **WARM))[0]
    assert len(set(map(tuple, alone))) == 4
    # In company, in small chunks, in little memory, and again behind a cached prompt.
    engine = make_engine(model, blocks=22, max_chunk=8)
    for name, prompt in enumerate(PROMPTS):
        n, seed = (4, 5) if name == 0 else (1, 5)
        engine.submit(GenerateRequest(name, prompt, SamplingParams(n=n, seed=seed, **WARM)))
    results = {event.request_id: event for event in engine.stream() if hasattr(event, "completions")}
    assert tokens_of([results[0]]) == [alone]
    again = run(engine, PROMPTS[:1], n=4, seed=5, **WARM)
    assert tokens_of(again) == [alone] and again[0].cached_tokens == 32
    fewer = run(engine, PROMPTS[:1], n=2, seed=5, **WARM)
    assert tokens_of(fewer) == [alone[:2]]
    other = run(engine, PROMPTS[:1], n=4, seed=6, **WARM)
    assert tokens_of(other) != [alone]
    assert engine.stats.copied_blocks > 0
    assert_whole(engine)


def test_each_position_has_a_draw_of_its_own(model):
    """So hot that all tokens are as likely: what is drawn is the number itself."""
    (result,) = run(make_engine(model), PROMPTS[:1], max_new_tokens=12, temperature=1e6, seed=3)
    flat = SamplingParams(temperature=1.0, seed=3)
    expected = [choose(torch.zeros(VOCABULARY), flat, 0, position) for position in range(12)]
    assert list(result.completions[0].tokens) == expected
    assert len(set(expected)) > 8


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_samples_survive_preemption(model, preemption):
    alone = tokens_of(run(make_engine(model), PROMPTS[2:], n=4, seed=1, **WARM))
    engine = make_engine(model, preemption=preemption, host_blocks=30, kernels=Oracle())
    request = GenerateRequest("x", PROMPTS[2], SamplingParams(n=4, seed=1, **WARM))
    assert tokens_of([run_retracting(engine, request, preemption)]) == alone
    assert_whole(engine)
