"""Scales from a text: the largest key and value of every head, whatever order it is read in."""

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.engine import calibrate
from tests.engine.samples import HEAD_DIM, LAYERS, draw_prompts, tiny_llama

MOST = 448.0


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("transformers")
    from kgen.integrations.decoder import TransformersModel

    return TransformersModel(tiny_llama())


def kept(model, prompt):
    """Keys and values of every layer, [tokens, KV heads, head_dim], as transformers' own cache has them."""
    llama = model._model
    llama.set_attn_implementation("sdpa")
    with torch.inference_mode():
        cache = llama(torch.tensor([prompt]), use_cache=True).past_key_values
    layers = [cache.layers[layer] for layer in range(LAYERS)]
    return [[each[0].transpose(0, 1) for each in (one.keys, one.values)] for one in layers]


def test_scales_are_the_largest_of_every_head(model):
    prompts = draw_prompts(5, 40, 90)
    scales = calibrate(model, prompts, torch.float8_e4m3fn, room=1.0)
    found = [kept(model, prompt) for prompt in prompts]
    for layer in range(LAYERS):
        for which, scale in enumerate(scales.layer(layer)):
            rows = torch.cat([each[layer][which] for each in found])
            assert rows.shape == (135, 2, HEAD_DIM)
            torch.testing.assert_close(scale * MOST, rows.abs().amax((0, 2)), rtol=1e-4, atol=0)


def test_one_scale_a_layer_is_the_largest_of_its_heads(model):
    prompts = draw_prompts(30)
    heads, layers = (calibrate(model, prompts, torch.float8_e4m3fn, per_head=per) for per in (True, False))
    assert layers.keys.shape == (LAYERS, 1)
    assert layers.keys.equal(heads.keys.amax(1, keepdim=True))
    assert layers.values.equal(heads.values.amax(1, keepdim=True))


def test_without_text_and_for_other_types_it_says_so(model):
    with pytest.raises(KgenError, match="no text to calibrate with"):
        calibrate(model, [[], []], torch.float8_e4m3fn)
    with pytest.raises(KgenError, match=r"torch\.float16 has no scales"):
        calibrate(model, [[1, 2]], torch.float16)
