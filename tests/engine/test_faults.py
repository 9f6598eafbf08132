"""What is refused, before anything has changed."""

import pytest

from kgen.diagnostics import KgenError
from kgen.engine import GenerateRequest, SamplingParams
from tests.engine.samples import draw_prompts, make_engine

PROMPT = draw_prompts(20)[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0, expected a whole number of at least 1"),
        ({"n": 2.0}, "n is 2.0, expected a whole number of at least 1"),
        ({"temperature": -0.1}, "temperature is -0.1, expected 0 or more"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0, expected above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"top_k": -1}, "top_k is -1"),
        ({"seed": "x"}, "seed is 'x', expected a whole number"),
        ({"length_penalty": float("inf")}, "length_penalty is inf, expected a finite number"),
        ({"n": 4}, "n is 4, but at temperature 0 all samples are the same"),
        ({"n": 2, "beams": 2, "temperature": 1.0}, "n is 2 and beams 2"),
        ({"beams": 2, "temperature": 0.5}, "beams is 2 and temperature 0.5"),
        ({"beams": 2, "stop": ("x",)}, "a beam search ends at tokens"),
        ({"stop": "end"}, "stop is 'end', expected a tuple of strings"),
        ({"stop": ("",)}, "strings that are not empty"),
        ({"stop_tokens": (-1,)}, "a stop token is -1"),
    ],
)
def test_parameters(given, message):
    with pytest.raises(KgenError) as raised:
        SamplingParams(**given)
    (found,) = raised.value.diagnostics
    assert found.code == "K801" and message in found.message


@pytest.mark.parametrize(
    ("prompt", "params", "code", "message"),
    [
        ([], {}, "K802", "request 'x' has an empty prompt"),
        ([5, 97], {}, "K802", "token 97 at place 1 is outside the vocabulary of 97"),
        ([-1], {}, "K802", "token -1 at place 0"),
        ([0.5], {}, "K802", "expected a list of token ids, found float64"),
        (PROMPT, {"max_new_tokens": 500}, "K802", "the model has 512 positions"),
        (PROMPT, {"stop": ("x",)}, "K802", "the engine makes no text"),
        (PROMPT, {"stop_tokens": (97,)}, "K802", "stop_tokens of request 'x': token 97 at place 0"),
        (PROMPT, {"beams": 49}, "K802", "49 beams of a vocabulary of 97"),
        (PROMPT, {"max_new_tokens": 200}, "K706", "needs up to 14 pages and there are 8"),
        (PROMPT, {"beams": 17}, "K706", "up to"),
        (PROMPT, {"n": 17, "temperature": 1.0, "max_new_tokens": 1}, "K706", "17 sequences at once"),
    ],
)
def test_requests(model, prompt, params, code, message):
    engine = make_engine(model, blocks=64 if params.get("n") else 8)
    with pytest.raises(KgenError) as raised:
        engine.submit(GenerateRequest("x", prompt, SamplingParams(**params)))
    (found,) = raised.value.diagnostics
    assert found.code == code and message in found.message
    assert not engine.has_work and engine.step() == ()
    engine.check_integrity()


def test_an_id_is_used_once_at_a_time(model):
    engine = make_engine(model)
    engine.submit(GenerateRequest("x", PROMPT, SamplingParams(max_new_tokens=2)))
    with pytest.raises(KgenError, match="request 'x' is under way already"):
        engine.submit(GenerateRequest("x", PROMPT, SamplingParams(max_new_tokens=2)))
    assert len(engine.generate([])) == 0 and not engine.has_work
    engine.submit(GenerateRequest("x", PROMPT, SamplingParams(max_new_tokens=2)))


def test_generate_is_all_or_nothing(model):
    engine = make_engine(model)
    requests = [GenerateRequest(place, prompt) for place, prompt in enumerate((PROMPT, [1], [97]))]
    with pytest.raises(KgenError, match="token 97"):
        engine.generate(requests)
    assert not engine.has_work and engine.scheduler.totals.aborted == 2
    engine.check_integrity()


def test_memory_that_is_pinned_from_outside_is_said(model):
    from kgen.runtime import Key

    engine = make_engine(model, blocks=8)
    (first, second) = draw_prompts(110, 60)
    engine.generate([GenerateRequest("x", first, SamplingParams(max_new_tokens=4))])
    engine.memory.cache.pin(engine.memory.cache.match_prefix(Key.of(first)), 3600)
    engine.submit(GenerateRequest("y", second, SamplingParams(max_new_tokens=2)))
    with pytest.raises(KgenError, match="no request fits into memory"):
        engine.step()
    engine.abort("y")
    engine.check_integrity()


def test_logits_that_are_no_numbers_are_not_sampled(model, monkeypatch):
    engine = make_engine(model)
    engine.submit(GenerateRequest("x", PROMPT, SamplingParams(max_new_tokens=2)))
    honest = type(model).forward
    monkeypatch.setattr(type(model), "forward", lambda *a: honest(*a).fill_(float("nan")))
    with pytest.raises(KgenError, match="logits that are not numbers"):
        engine.step()
    engine.check_integrity()
