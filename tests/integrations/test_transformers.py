"""A small random Llama, stock and on kgen's pages: the same tokens, whatever lies in unused memory."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

from kgen.diagnostics import KgenError  # noqa: E402
from kgen.integrations.transformers import NAME, PagedCache, attention, cache_argument, register  # noqa: E402
from kgen.spec.load import load_catalog  # noqa: E402

LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 2, 6, 2, 32, 97


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=96,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        vocab_size=VOCABULARY,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    )
    register()
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def layouts():
    return load_catalog().layouts


def make_cache(model, layouts, sequences=2, max_tokens=64, layout="bshd", fill=float("nan")):
    cache = PagedCache(
        model.config, num_sequences=sequences, max_tokens=max_tokens, layout=layouts[layout], block_size=16
    )
    for pages in cache.pages:
        for tensor in pages:
            tensor.fill_(fill)
    return cache


def generate(model, ids, implementation, cache=None, steps=24):
    model.set_attn_implementation(implementation)
    given = {} if cache is None else {cache_argument(model): cache}
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        return model.generate(
            ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, pad_token_id=0, **given
        )


@pytest.mark.parametrize("layout", ["bshd", "vllm"])
def test_generate_gives_the_stock_tokens(model, layouts, layout):
    ids = torch.randint(VOCABULARY, (2, 21), generator=torch.Generator().manual_seed(1))
    expected = generate(model, ids, "sdpa")
    got = generate(model, ids, NAME, make_cache(model, layouts, layout=layout))
    assert torch.equal(got, expected)
    assert len(set(got[:, 21:].flatten().tolist())) > 3


def test_packed_sequences_of_different_lengths_match_each_alone(model, layouts):
    draw = torch.Generator().manual_seed(2)
    prompts = [torch.randint(VOCABULARY, (n,), generator=draw) for n in (5, 33, 1)]
    cache = make_cache(model, layouts, sequences=3)
    model.set_attn_implementation(NAME)
    with torch.inference_mode():
        got = model(
            input_ids=torch.cat(prompts)[None],
            position_ids=cache.plan([5, 33, 1]),
            use_cache=True,
            **{cache_argument(model): cache},
        ).logits[0]
        model.set_attn_implementation("sdpa")
        alone = torch.cat([model(input_ids=p[None], use_cache=False).logits[0] for p in prompts])
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got, alone, rtol=1e-4, atol=1e-4)
    assert got.argmax(-1).tolist() == alone.argmax(-1).tolist()


def test_a_sequence_left_out_of_a_pass_keeps_its_tokens(model, layouts):
    cache = make_cache(model, layouts, sequences=2)
    argument = cache_argument(model)
    ids = torch.arange(6)
    model.set_attn_implementation(NAME)
    with torch.inference_mode():
        model(input_ids=torch.cat([ids, ids])[None], position_ids=cache.plan([6, 6]), **{argument: cache})
        model(input_ids=ids[None, :1], position_ids=cache.plan([1, 0]), **{argument: cache})
        late = model(input_ids=ids[None, :1], position_ids=cache.plan([0, 1]), **{argument: cache}).logits
        model.set_attn_implementation("sdpa")
        whole = model(input_ids=torch.cat([ids, ids[:1]])[None], use_cache=False).logits[:, -1:]
    torch.testing.assert_close(late, whole, rtol=1e-4, atol=1e-4)


def test_positions_continue_where_a_sequence_stands(model, layouts):
    cache = make_cache(model, layouts, sequences=2)
    assert cache.plan([3, 1]).tolist() == [[0, 1, 2, 0]]
    assert cache.plan([1, 2]).tolist() == [[3, 1, 2]]
    assert cache.get_seq_length() == 4 and cache.get_max_length() == 64


def test_pages_are_handed_out_as_sequences_grow(model, layouts):
    cache = make_cache(model, layouts, sequences=2, max_tokens=48)
    cache.plan([16, 16])
    cache.plan([1, 0])
    cache.plan([0, 17])
    first, second = cache.table.tolist()
    used = first[:2] + second[:3]
    assert len(set(used)) == 5 and set(used) < set(range(6))
    assert second[1] != second[0] + 1 or first[1] != first[0] + 1


def test_num_bytes_counts_every_layer(model, layouts):
    cache = make_cache(model, layouts, sequences=1, max_tokens=32)
    assert cache.num_bytes == LAYERS * 2 * 32 * KV_HEADS * HEAD_DIM * 4


def test_faults(model, layouts):
    cache = make_cache(model, layouts, sequences=1, max_tokens=20)
    with pytest.raises(KgenError, match=r"sequence 0 would hold 21 tokens, but max_tokens is 20"):
        cache.plan([21])
    with pytest.raises(KgenError, match=r"needs its keys in a PagedCache"):
        attention(model, torch.zeros(1, 6, 1, 32), torch.zeros(1, 2, 1, 32), None, None)
    cache.plan([2])
    with pytest.raises(KgenError, match=r"\(1, 3\), but \(1, 2\) was planned"):
        cache.update(torch.zeros(1, 2, 3, 32), torch.zeros(1, 2, 3, 32), 0)
    with pytest.raises(KgenError, match=r"dcu_layout2 is not wholly known"):
        make_cache(model, layouts, layout="dcu_layout2")


def test_dropout_is_refused(model, layouts):
    cache = make_cache(model, layouts, sequences=1)
    cache.plan([1])
    key, value = cache.update(torch.zeros(1, 2, 1, 32), torch.zeros(1, 2, 1, 32), 0)
    with pytest.raises(KgenError, match="no dropout"):
        attention(model, torch.zeros(1, 6, 1, 32), key, value, None, dropout=0.1)
