"""Batches over caches of 8-bit floats, and what they must come to."""

from dataclasses import replace

import torch

from kgen import ops, reference
from kgen.fp8 import FORMATS
from kgen.metadata import SEPARATE
from kgen.quantise import dequantised, quantised
from tests.dispatch.batch import BSHD, HEAD_DIM, Batch

E4M3, E5M2 = FORMATS["fp8_e4m3", "ocp"], FORMATS["fp8_e5m2", "ocp"]
KV_HEADS = 2


def torch_dtype(one):
    return getattr(torch, one.torch)


def scale_of(one, shape=()):
    """A scale, or one for each KV head: the largest value is 8 to 16."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(3))
    return 8 * (1 + drawn) / one.most


def codes(cache, scale, one):
    """A cache as 8-bit floats; NaN stays where it is."""
    return quantised(cache, scale.reshape(-1, 1), torch_dtype(one))


class Eight:
    """A decode batch whose caches are 8-bit floats."""

    def __init__(self, lens, one=E4M3, dtype=torch.float32, k_scale=None, v_scale=None):
        self.one, self.batch = one, Batch(lens, dtype=dtype)
        self.k_scale = scale_of(one) if k_scale is None else k_scale
        self.v_scale = scale_of(one, KV_HEADS) if v_scale is None else v_scale
        self.k = codes(self.batch.k, self.k_scale, one)
        self.v = codes(self.batch.v, self.v_scale, one)

    def call(self, **changes):
        batch = self.batch
        return {
            "q": batch.q,
            "k_cache": self.k,
            "v_cache": self.v,
            "block_table": batch.block_table,
            "seq_lens": batch.seq_lens,
            "max_seq_len": batch.max_seq_len,
            "k_scale": self.k_scale,
            "v_scale": self.v_scale,
            **changes,
        }

    def run(self, **changes):
        return ops.paged_attention(**self.call(**changes))

    def expected(self, scale=HEAD_DIM**-0.5):
        order = BSHD.order("k")
        k, v = dequantised(self.k, order, self.k_scale), dequantised(self.v, order, self.v_scale)
        batch = self.batch
        return reference.paged_attention(batch.q, k, v, batch.block_table, batch.seq_lens, scale, BSHD)


def eight_ragged(made, convention, one=E4M3):
    """The arguments of extend_attention for a ragged batch whose pool is 8-bit floats, and the same batch
    with keys that are what the pool stands for."""
    k_scale, v_scale = scale_of(one, made.kv_heads), scale_of(one)
    k, v, batch = made.pool(convention)
    stood_for = []
    for (keys, values), new in zip(made.keys, made.new, strict=True):
        held = len(keys) - new if convention == SEPARATE else len(keys)
        pair = []
        for rows, scale in ((keys, k_scale), (values, v_scale)):
            pooled = codes(rows[:held], scale, one).double() * scale.double().reshape(-1, 1)
            pair.append(torch.cat([pooled, rows[held:].double()]))
        stood_for.append(tuple(pair))
    new = made.new_keys() if convention == SEPARATE else {}
    exact = replace(made)
    exact.q, exact.keys = made.q, stood_for
    caches = codes(k, k_scale, one), codes(v, v_scale, one)
    return (made.q, *caches, batch), {"k_scale": k_scale, "v_scale": v_scale, **new}, exact
