"""A mask that a user writes in a build, from its text to the numbers of a call."""

from pathlib import Path

import pytest
import torch

from kgen import api, ops, reference
from kgen.diagnostics import KgenError
from kgen.metadata import from_slots
from kgen.testing.runner import cases, check

BUILD = """\
build: {name}
masks:
  strided:
    mask: kv <= q and (kv % stride == {rest} or q - kv < near)
    score: "s - weight[head] * log2(1 + q - kv)"
    args: {{stride: int, near: int, weight: "float[head]"}}
variants:
  - op: {op}
    axes:
      arch: [native]
      dtype: [f32]
      head_dim: [32]
      block_size: [{block}]
      layout: [bshd]
      variant: [strided]
{more}"""

DECODE = "      reuse_kv_times: [2]\n      partition_size: [0]\n"
PREFIXES, NEW = [20, 0, 77], [3, 40, 1]
HEADS, DIM = 4, 32


def build(folder: Path, name: str, op: str, block: int, more: str = "", rest: int = 0):
    path = folder / f"{name}.yaml"
    path.write_text(BUILD.format(name=name, op=op, block=block, more=more, rest=rest))
    matrix = api.expand(path)
    api.build_matrix(matrix, progress="quiet")
    return matrix


@pytest.fixture(autouse=True)
def fresh(empty_cache):
    """Libraries of this test alone; they are forgotten after it."""
    ops.reset()
    yield
    ops.reset()


def arguments(**changes):
    return {"stride": 7, "near": 4, "weight": torch.tensor([0.1, 0.0, 0.5, 1.0]), **changes}


def sees(at: reference.Point, rest: int = 0) -> torch.Tensor:
    return ((at.kv <= at.q) & ((at.kv % 7 == rest) | (at.q - at.kv < 4))).expand_as(at.s)


def bends(at: reference.Point) -> torch.Tensor:
    weight = arguments()["weight"].double().view(-1, 1, 1)
    return at.s - weight * (1 + at.q - at.kv).clamp(min=1).double().log2()


def test_a_mask_of_a_build(tmp_path: Path):
    matrix = build(tmp_path, "mine", "extend_attention", 1)
    for case in (case for variant in matrix.accepted for case in cases(variant)):
        assert check(case).problems == ()

    torch.manual_seed(0)
    lengths = [old + new for old, new in zip(PREFIXES, NEW, strict=True)]
    slots = [torch.arange(sum(lengths[:i]), sum(lengths[: i + 1])).tolist() for i in range(3)]
    batch = from_slots(
        [s[:p] for s, p in zip(slots, PREFIXES, strict=True)],
        [s[p:] for s, p in zip(slots, PREFIXES, strict=True)],
    )
    q = torch.randn(sum(NEW), HEADS, DIM)
    k, v = (torch.randn(sum(lengths), 2, DIM) for _ in "kv")
    out, lse = ops.extend_attention(
        q, k, v, batch, variant="strided", variant_args=arguments(), return_lse=True
    )
    row = 0
    for own, new in zip(slots, NEW, strict=True):
        rows = slice(row, row + new)
        want = reference.attention(q[rows], k[own], v[own], DIM**-0.5, mask=sees, score=bends)
        torch.testing.assert_close(out[rows].double(), want[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(lse[rows].double(), want[1], rtol=1e-5, atol=1e-5)
        row += new

    with pytest.raises(KgenError, match="stride must be above 0"):
        ops.extend_attention(q, k, v, batch, variant="strided", variant_args=arguments(stride=0))
    with pytest.raises(KgenError, match="masks of a build are built with it alone"):
        ops.extend_attention(
            q.bfloat16(), k.bfloat16(), v.bfloat16(), batch, variant="strided", variant_args=arguments()
        )


def test_the_same_mask_decodes_and_a_second_meaning_is_refused(tmp_path: Path):
    build(tmp_path, "mine", "paged_attention", 16, DECODE)
    torch.manual_seed(1)
    table = torch.tensor([[2, 0, 4], [1, 3, -1]], dtype=torch.int32)
    lengths = [45, 17]
    q = torch.randn(2, HEADS, DIM)
    k, v = (torch.randn(5, 16, 2, DIM) for _ in "kv")
    call = {"max_seq_len": 48, "variant": "strided", "variant_args": arguments()}
    out = ops.paged_attention(q, k, v, table, torch.tensor(lengths, dtype=torch.int32), **call)
    for row, length in enumerate(lengths):
        own = [cache[table[row, : -(-length // 16)].long()].flatten(0, 1)[:length] for cache in (k, v)]
        want, _ = reference.attention(q[row : row + 1], *own, DIM**-0.5, mask=sees, score=bends)
        torch.testing.assert_close(out[row : row + 1].double(), want, rtol=1e-5, atol=1e-5)

    build(tmp_path, "other", "paged_attention", 16, DECODE, rest=1)
    ops.reset()
    with pytest.raises(KgenError, match="give the mask 'strided' two meanings"):
        ops.paged_attention(q, k, v, table, torch.tensor(lengths, dtype=torch.int32), **call)
