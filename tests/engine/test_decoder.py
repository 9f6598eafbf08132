"""A model of transformers as the engine's: what it says of itself, and what it does not run."""

import pytest
import torch

from kgen.diagnostics import KgenError
from tests.engine.samples import HEAD_DIM, LAYERS, VOCABULARY, draw_prompts, make_engine, run, tiny_llama

transformers = pytest.importorskip("transformers")

from kgen.integrations.decoder import TransformersModel  # noqa: E402


def test_what_a_model_says_of_itself(model):
    kv = model.kv
    assert (kv.num_layers, kv.num_kv_heads, kv.head_dim, kv.dtype) == (LAYERS, 2, HEAD_DIM, torch.float32)
    assert (model.vocab_size, model.max_positions) == (VOCABULARY, 512)
    assert model.device.type == "cpu" and model.end_tokens == frozenset()
    assert TransformersModel(tiny_llama(end_token=[3, 5])).end_tokens == {3, 5}


def test_only_wanted_rows_get_logits(llama, model):
    """Two sequences packed, and the logits of two of their rows, as the stock model gives them."""
    first, second = draw_prompts(6, 4)
    seen = []

    def attend(layer, q, k, v, scale):
        seen.append((layer, tuple(q.shape), tuple(k.shape), tuple(v.shape), scale))
        parts = []
        for begin, end in ((0, 6), (6, 10)):
            args = (each[begin:end].transpose(0, 1)[None] for each in (q, k, v))
            found = torch.nn.functional.scaled_dot_product_attention(*args, is_causal=True, enable_gqa=True)
            parts.append(found[0].transpose(0, 1))
        return torch.cat(parts)

    positions = torch.tensor([*range(6), *range(4)])
    with torch.inference_mode():
        got = model.forward(torch.tensor(first + second), positions, torch.tensor([2, 9]), attend)
        llama.set_attn_implementation("sdpa")
        stock = [llama(torch.tensor([p]), use_cache=False).logits[0, i] for p, i in ((first, 2), (second, 3))]
    assert got.dtype == torch.float32 and got.shape == (2, VOCABULARY)
    torch.testing.assert_close(got, torch.stack(stock), rtol=1e-4, atol=1e-4)
    shapes = ((10, 6, HEAD_DIM), (10, 2, HEAD_DIM), (10, 2, HEAD_DIM), HEAD_DIM**-0.5)
    assert seen == [(layer, *shapes) for layer in range(LAYERS)]


class Kept:
    """A model that keeps its logits."""

    def __init__(self, model):
        self._model, self.logits = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, *arguments):
        self.logits.append(self._model.forward(*arguments))
        return self.logits[-1]


def test_the_dtype_of_kept_keys_is_a_choice(model):
    """16 bits keep about three digits: logits near those of 32 bits, and not equal to them."""
    (prompt,) = draw_prompts(40)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        kept = Kept(model)
        engine = make_engine(kept, dtype=dtype)
        run(engine, [prompt], max_new_tokens=1)
        assert engine.memory.kv.keys[0].dtype == dtype
        found += kept.logits
    gap = float((found[0] - found[1]).abs().max())
    assert 1e-4 < gap < 0.05 * float(found[0].abs().max())


@pytest.mark.parametrize(
    ("option", "value"), [("sliding_window", 16), ("softcap", 30.0), ("s_aux", torch.zeros(6))]
)
def test_layers_that_attend_otherwise_are_refused(option, value):
    from kgen.integrations.decoder import attention

    module = type("Layer", (), {"layer_idx": 3})()
    rows = torch.zeros(1, 2, 4, HEAD_DIM)
    with pytest.raises(KgenError, match=f"layer 3 attends with {option}="):
        attention(module, rows, rows, rows, None, attend=lambda *a: a[1], **{option: value})
    attention(module, rows, rows, rows, None, attend=lambda *a: a[1], **{option: None})


def test_a_mistral_runs_without_its_window_and_not_with_it():
    def tiny(window):
        config = transformers.MistralConfig(
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            vocab_size=50,
            sliding_window=window,
        )
        return TransformersModel(transformers.MistralForCausalLM(config))

    (prompt,) = draw_prompts(9)
    prompt = [token % 50 for token in prompt]
    assert len(run(make_engine(tiny(None)), [prompt], max_new_tokens=3)[0].completions[0].tokens) > 0
    with pytest.raises(KgenError, match="attends with sliding_window=4"):
        run(make_engine(tiny(4)), [prompt], max_new_tokens=3)


def test_attention_outside_a_step_is_said(llama, model):
    run(make_engine(model), draw_prompts(3), max_new_tokens=1)
    with pytest.raises(KgenError, match="outside a step of an engine"):
        llama(torch.tensor([[1, 2]]))
