"""A tiny random Llama, engines over it, kernels that are the float64 oracle, and prompts."""

import dataclasses

import pytest
import torch

from kgen import reference
from kgen.engine import Engine, EngineConfig, GenerateRequest, RequestResult, SamplingParams
from kgen.quantise import dequantised
from kgen.runtime import SchedulerConfig
from kgen.spec.load import load_catalog

VOCABULARY, LAYERS, HEAD_DIM = 97, 2, 32
SIZE = 16
BSHD = load_catalog().layout("bshd")


def tiny_llama(end_token=None, vocabulary=VOCABULARY):
    """6 query heads on 2 KV heads of 32, weights wide enough that its tokens vary."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=96,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=HEAD_DIM,
        vocab_size=vocabulary,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=end_token,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


class Oracle:
    """The kernels of an engine in plain torch, computed in float64."""

    def write(self, key, value, k_cache, v_cache, slots, layout, scales):
        written = reference.reshape_and_cache(
            key, value, k_cache, v_cache, slots, layout, *(scales or (None, None))
        )
        for cache, new in zip((k_cache, v_cache), written, strict=True):
            cache.copy_(new)

    def extend(self, q, k_cache, v_cache, batch, scale, layout, scales):
        k_cache, v_cache = _meant(k_cache, v_cache, layout, scales)
        arrays = (batch.qo_indptr, batch.kv_indptr, batch.kv_indices, batch.seq_lens)
        return reference.extend_attention(q, k_cache, v_cache, *arrays, scale, layout)[0].to(q.dtype)

    def decode(self, q, k_cache, v_cache, block_table, seq_lens, max_seq_len, scale, layout, scales):
        k_cache, v_cache = _meant(k_cache, v_cache, layout, scales)
        assert max_seq_len >= int(seq_lens.max())
        return reference.paged_attention(q, k_cache, v_cache, block_table, seq_lens, scale, layout)[0].to(
            q.dtype
        )


def _meant(k_cache, v_cache, layout, scales):
    """What caches stand for."""
    if scales is None:
        return k_cache, v_cache
    return dequantised(k_cache, layout.k, scales[0]), dequantised(v_cache, layout.v, scales[1])


def make_engine(model, *, blocks=256, kernels=None, decode=None, poisoned=True, **changes):
    """An engine that verifies itself after every operation. `changes` are fields of either config. Its unused
    memory holds NaN."""
    names = {field.name for field in dataclasses.fields(SchedulerConfig)}
    scheduling = {"max_sequences": 16, **{k: v for k, v in changes.items() if k in names}}
    others = {k: v for k, v in changes.items() if k not in names}
    config = EngineConfig(BSHD, blocks, check=True, scheduler=SchedulerConfig(**scheduling), **others)
    engine = Engine(model, config, decode=decode, kernels=kernels)
    for tensor in (*engine.memory.kv.keys, *engine.memory.kv.values):
        tensor.fill_(float("nan") if poisoned else 0.0)
    return engine


def draw_prompts(*lengths, seed=1, shared=0):
    """Random prompts of these lengths, of which the first `shared` tokens are the same."""
    draw = torch.Generator().manual_seed(seed)
    first = torch.randint(1, VOCABULARY, (shared,), generator=draw).tolist()
    return [first + torch.randint(1, VOCABULARY, (n - shared,), generator=draw).tolist() for n in lengths]


def run(engine, prompts, **params):
    """The results of these prompts, all submitted at once."""
    requests = [
        GenerateRequest(f"{len(p)}/{place}", p, SamplingParams(**params)) for place, p in enumerate(prompts)
    ]
    return engine.generate(requests)


def run_retracting(engine, request, preemption):
    """The result of a request that loses its memory at every other token."""
    engine.submit(request)
    made, found = 0, []
    for _ in range(1000):
        if not engine.has_work:
            break
        before = engine.scheduler.totals.new_tokens
        found += [event for event in engine.step() if isinstance(event, RequestResult)]
        made += engine.scheduler.totals.new_tokens > before
        if engine.has_work and engine.scheduler.totals.new_tokens > before and made % 2:
            engine.scheduler.retract(request.request_id, preemption)
    (result,) = found
    assert result.preemptions >= 4
    return result


def tokens_of(results: list[RequestResult]):
    """The tokens of every completion of every result."""
    return [[list(each.tokens) for each in result.completions] for result in results]


def stock_tokens(model, prompt, steps, **options):
    """What transformers' own generate gives for a prompt: its new tokens, and its whole answer."""
    model.set_attn_implementation("sdpa")
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        found = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=steps,
            do_sample=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        )
    return found.sequences[:, len(prompt) :].tolist(), found


def assert_whole(engine):
    """Nothing is under way, and every page is free or cached."""
    engine.check_integrity()
    pool = engine.memory.manager.pool
    assert pool.num_held == 0 and pool.num_available == pool.num_pages
    assert not engine.memory.manager.tables and not engine.memory.manager.swap.tables
