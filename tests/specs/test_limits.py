"""What lies past the usual sizes: offsets beyond 2^31, high page ids and slots, very long rows."""

import mmap

import pytest
import torch

from kgen import ops, reference
from kgen.layout import Sizes, shape
from kgen.testing import runner
from kgen.testing.case import Case
from kgen.testing.memory import FAR, MAP_NORESERVE, same_bits
from tests.specs.spec_samples import variant

TWO_31 = 2**31


def attention_variant(**params):
    base = {
        "dtype": "bf16",
        "head_dim": 64,
        "block_size": 16,
        "layout": "bshd",
        "reuse_kv_times": 4,
        "partition_size": 0,
    }
    return variant("paged_attention", **{**base, **params})


def lazy(extents: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros of any size that take memory only where they are written."""
    count = 1
    for extent in extents:
        count *= extent
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=flags), dtype=dtype).view(extents)


def attend(made, q, k_cache, v_cache, table, lengths, scale=0.31):
    """O and LSE of exactly this variant."""
    return ops.paged_attention(
        q,
        k_cache,
        v_cache,
        table,
        lengths,
        max_seq_len=int(lengths.max()),
        softmax_scale=scale,
        layout=made.params["layout"],
        partition_size=made.params["partition_size"],
        reuse_kv_times=made.params["reuse_kv_times"],
        arch=made.params["arch"],
        return_lse=True,
    )


@pytest.mark.parametrize("partition_size", [0, 256])
@pytest.mark.parametrize(("layout", "dtype"), [("bshd", "bf16"), ("bhsd", "f32"), ("vllm", "f16")])
def test_reads_past_two_to_the_31_elements(layout, dtype, partition_size):
    made = attention_variant(layout=layout, dtype=dtype, partition_size=partition_size)
    case = next(case for case in runner.cases(made) if case.name == "ragged-g4")
    inputs = runner.materialise(case, FAR)
    last = inputs["k_cache"].shape[0] - 1
    assert last * inputs["k_cache"].stride(0) > TWO_31
    expected = runner.expect(inputs)
    assert runner.compare(expected, runner.run(inputs)) == []


@pytest.mark.parametrize("layout", ["bshd", "vllm"])
def test_writes_past_two_to_the_31_elements(layout):
    made = variant("reshape_and_cache", dtype="f16", head_dim=64, block_size=16, layout=layout)
    (case,) = runner.cases(made)
    inputs = runner.materialise(case, FAR)
    expected = runner.expect(inputs)
    assert runner.compare(expected, runner.run(inputs)) == []


def test_page_ids_past_65536():
    made = attention_variant()
    blocks = 65_536 + 5
    caches = [lazy((blocks, 16, 1, 64), torch.bfloat16) for _ in range(2)]
    table = torch.tensor([[65_540, 3, 65_536]], dtype=torch.int32)
    generator = torch.Generator().manual_seed(3)
    for cache in caches:
        cache[table[0].long()] = torch.randn(3, 16, 1, 64, generator=generator).bfloat16()
    q = torch.randn(1, 4, 64, generator=generator).bfloat16()
    lengths = torch.tensor([41], dtype=torch.int32)
    out, lse = attend(made, q, *caches, table, lengths)
    k, v = reference.gather(*caches, made.op.layouts["bshd"], table[0], 41)
    want, want_lse = reference.attention(q, k, v, 0.31)
    torch.testing.assert_close(out.double(), want, rtol=2**-7, atol=1e-4)
    torch.testing.assert_close(lse.double(), want_lse, rtol=0, atol=2e-5)


def test_slots_past_two_to_the_31():
    made = variant("reshape_and_cache", dtype="f16", head_dim=32, block_size=256, layout="bhsd")
    sizes = Sizes(TWO_31 // 256 + 2, 1, 256, 32, 2)
    layout = made.op.layouts["bhsd"]
    caches = [lazy(shape(reference.known_order(layout, which), sizes), torch.float16) for which in "kv"]
    new = [torch.randn(3, 1, 32, generator=torch.Generator().manual_seed(n)).half() for n in (1, 2)]
    slots = torch.tensor([TWO_31 + 300, -1, 5])
    ops.reshape_and_cache(*new, *caches, slots, layout="bhsd", arch=made.params["arch"])
    for tokens, cache in zip(new, caches, strict=True):
        far = cache[(TWO_31 + 300) // 256, 0]
        assert same_bits(far[300 % 256], tokens[0, 0])
        assert same_bits(cache[0, 0, 5], tokens[2, 0])
        assert int(far.count_nonzero()) == int(tokens[0].count_nonzero())
        assert int(cache[0].count_nonzero()) == int(tokens[2].count_nonzero())


@pytest.mark.parametrize("partition_size", [0, 512])
@pytest.mark.parametrize("length", [16_385, 131_073])
def test_long_rows(partition_size, length):
    """One long row among short ones, past where a limit of 16K or 128K tokens would be."""
    made = attention_variant(dtype="f32", head_dim=32, block_size=32, partition_size=partition_size)
    test = next(case for case in runner.cases(made) if case.name == "ragged-g1")
    values = {**test.values, "seq_lens": [3, length, 0, 40], "group": 2, "num_kv_heads": 1}
    outcome = runner.check(Case(f"long{length}", made, values))
    assert outcome.problems == ()
