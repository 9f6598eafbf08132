"""8-bit KV in the engine: scales go to every kernel, pages keep codes, and memory is half as large."""

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.engine import calibrate
from kgen.runtime import KVScales
from tests.engine.samples import Oracle, assert_whole, draw_prompts, make_engine, run, tiny_llama, tokens_of

STEPS = 10
PROMPTS = draw_prompts(3, 40, 90, 91, shared=3)
DTYPES = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("transformers")
    from kgen.integrations.decoder import TransformersModel

    return TransformersModel(tiny_llama())


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def settings(request, model):
    return {"dtype": request.param, "scales": calibrate(model, PROMPTS, request.param)}


@pytest.fixture(scope="module")
def expected(model, settings):
    """The tokens of an engine that computes every prompt whole."""
    results = run(make_engine(model, kernels=Oracle(), **settings), PROMPTS, max_new_tokens=STEPS)
    return tokens_of(results)


@pytest.mark.parametrize(
    "changes",
    [{"max_batch_tokens": 24, "max_chunk": 16}, {"prefix_cache": False}, {"blocks": 14, "host_blocks": 24}],
    ids=["in chunks", "no prefix cache", "swapped"],
)
def test_tokens_do_not_depend_on_how_they_are_computed(model, settings, expected, changes):
    changes = {**changes, "preemption": "swap"} if "host_blocks" in changes else changes
    engine = make_engine(model, kernels=Oracle(), **settings, **changes)
    results = run(engine, PROMPTS, max_new_tokens=STEPS)
    assert tokens_of(results) == expected
    assert_whole(engine)


def test_a_second_time_most_of_the_prompts_is_reused(model, settings, expected):
    engine = make_engine(model, kernels=Oracle(), **settings)
    run(engine, PROMPTS, max_new_tokens=STEPS)
    again = run(engine, PROMPTS, max_new_tokens=STEPS)
    assert tokens_of(again) == expected and sum(each.cached_tokens for each in again) > 150


def test_pages_are_a_quarter_of_those_of_floats(model, settings):
    codes = make_engine(model, kernels=Oracle(), **settings).memory.kv.num_bytes
    assert 4 * codes == make_engine(model, kernels=Oracle()).memory.kv.num_bytes


def test_most_tokens_are_those_of_floats(model):
    """The weights are random and its logits close together: a rounding changes some."""
    scales = calibrate(model, PROMPTS, torch.float8_e4m3fn)
    with_codes = make_engine(model, kernels=Oracle(), dtype=torch.float8_e4m3fn, scales=scales)
    found, plain = (
        tokens_of(run(engine, PROMPTS, max_new_tokens=1))
        for engine in (with_codes, make_engine(model, kernels=Oracle()))
    )
    assert sum(one == other for one, other in zip(found, plain, strict=True)) >= 3


def test_scales_that_do_not_fit_are_refused(model):
    scales = calibrate(model, PROMPTS[:1], torch.float8_e4m3fn)
    with pytest.raises(KgenError, match=r"KV of torch\.float8_e4m3fn needs scales"):
        make_engine(model, dtype=torch.float8_e4m3fn)
    with pytest.raises(KgenError, match=r"KV of torch\.float32 has no scales"):
        make_engine(model, scales=scales)
    with pytest.raises(KgenError, match=r"expected \[2, 1\] or \[2, 2\]"):
        make_engine(model, dtype=torch.float8_e4m3fn, scales=KVScales(scales.keys[:1], scales.values))
