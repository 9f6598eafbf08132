"""The decode loops of the demo: the stock one is what `generate` does, and kgen's gives its tokens."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

from kgen.demo.compare import compare  # noqa: E402
from kgen.demo.decode import decode_paged, decode_stock  # noqa: E402
from kgen.integrations.transformers import PagedCache, register  # noqa: E402
from kgen.spec.load import load_catalog  # noqa: E402

VOCABULARY, STEPS = 97, 12


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        hidden_size=96,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=VOCABULARY,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    register()
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def prompts():
    draw = torch.Generator().manual_seed(4)
    return [torch.randint(VOCABULARY, (n,), generator=draw).tolist() for n in (3, 40, 17)]


@pytest.fixture(scope="module")
def stock(model, prompts):
    return decode_stock(model, prompts, STEPS, lambda tokens: None)


def test_the_stock_loop_is_generate(model, prompts, stock):
    for prompt, tokens in zip(prompts, stock.tokens, strict=True):
        ids = torch.tensor([prompt])
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=mask, max_new_tokens=STEPS, do_sample=False, pad_token_id=0
            )
        assert out[0, len(prompt) :].tolist() == list(tokens)


def test_decoding_on_pages_gives_the_stock_tokens(model, prompts, stock):
    seen = []
    layout = load_catalog().layouts["bshd"]
    cache = PagedCache(model.config, num_sequences=3, max_tokens=64, layout=layout)
    paged = decode_paged(model, prompts, STEPS, cache, seen.append)
    result = compare(stock, paged, None)
    assert result.identical and (result.same, result.total) == (3 * STEPS, 3 * STEPS)
    assert 0 < result.logit_error < 1e-3
    assert [list(column) for column in zip(*seen, strict=True)] == [list(t) for t in paged.tokens]
    assert paged.prefill_tokens == 60 and paged.decode_rate > 0 and paged.prefill_rate > 0
