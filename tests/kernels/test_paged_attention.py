"""The decode kernel against float64, and its contract, below dispatch."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kgen import reference
from kgen.manifest import ERRORS
from kgen.paths import specs_dir
from kgen.spec.load import load_catalog
from kgen.variants.policy import argument_words
from tests.kernels.harness import DTYPES, NARROW, WIDE, Kernel, cache_words, in_order, kernel, tensor

TOLERANCE = {"f32": 4e-6, "f16": 2e-3, "bf16": 1.6e-2}
EVEN_SHARES = ("piece_states", "piece_out", "arrivals")  # workspaces of GPUs alone

# Every branch of the template: innermost axes, tails of head_dim, pages against tiles, blocks of rows.
AXES = ("dtype", "head_dim", "block_size", "layout", "reuse_kv_times", "partition_size")
VARIANTS = {
    "bshd": ("bf16", 128, 16, "bshd", 4, 0),
    "split": ("f16", 80, 64, "bhsd", 7, 128),
    "vt": ("bf16", 64, 16, "bhsd_vt", 3, 96),
    "vllm": ("f32", 40, 32, "vllm", 1, 0),
    "small": ("bf16", 40, 1, "vllm", 2, 64),
    "large": ("f32", 256, 256, "bshd", 16, 0),
}
OTHER_LANES = [
    *((name, WIDE) for name in ("bshd", "split", "vt", "small")),
    *((name, NARROW) for name in ("vllm", "vt")),
]


def decode(name: str, flags: tuple[str, ...] = ()) -> Kernel:
    return kernel("paged_attention", flags, **dict(zip(AXES, VARIANTS[name], strict=True)))


@dataclass(frozen=True)
class Call:
    """One batch. `q` [seqs, heads, dim]; caches in the variant's layout; `expected` and `lse` in float64."""

    kernel: Kernel
    lengths: list[int]
    group: int
    scale: float
    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor
    out: Tensor
    lse: Tensor
    work: dict[str, Tensor] = field(default_factory=dict)

    def words(self) -> dict[str, int | float]:
        params = self.kernel.variant.params
        layout = self.kernel.variant.op.layouts[str(params["layout"])]
        num_seqs, num_heads, _ = self.q.shape
        blocks = self.k.shape[layout.k.axes.index("block")]
        heads = num_heads // self.group
        on_gpus = (w.name for w in argument_words(self.kernel.variant.op) if w.argument in EVEN_SHARES)
        words = {
            **dict.fromkeys((*on_gpus, "max_shares", "max_workers", "crowded"), 0),
            **tensor("out", self.out, "seq", "head", "dim"),
            **tensor("lse", self.lse, "seq", "head"),
            **tensor("q", self.q, "seq", "head", "dim"),
            **cache_words("k_cache", self.k, layout.k),
            **cache_words("v_cache", self.v, layout.v),
            **tensor("block_table", self.table, "seq", "page"),
            "seq_lens": self.work["seq_lens"].data_ptr(),
            "softmax_scale": self.scale,
            "max_seq_len": max(self.lengths, default=0),
            "num_seqs": num_seqs,
            "num_heads": num_heads,
            "num_blocks": blocks,
            "num_kv_heads": heads,
            "max_pages": self.table.shape[1],
            "group": self.group,
            "passes": -(-self.group // int(params["reuse_kv_times"])),
            "max_num_partitions": self.work["exp_sums"].shape[2],
        }
        for name in ("exp_sums", "max_logits"):
            words |= tensor(name, self.work[name], "seq", "head", "part")
        return words | tensor("tmp_out", self.work["tmp_out"], "seq", "head", "part", "dim")

    def run(self, threads: int = 1, **changed: int | float) -> tuple[int, list[int]]:
        return self.kernel.call({**self.words(), **changed}, threads)

    def expected(self) -> tuple[Tensor, Tensor]:
        layout = self.kernel.variant.op.layouts[str(self.kernel.variant.params["layout"])]
        lengths = self.work["seq_lens"]
        return reference.paged_attention(self.q, self.k, self.v, self.table, lengths, self.scale, layout)

    def check(self, threads: int = 1) -> None:
        """Run and compare, within the rounding of the dtype."""
        self.out.fill_(math.nan)
        self.lse.fill_(math.nan)
        assert self.run(threads) == (0, [0, 0, 0, 0])
        out, lse = self.expected()
        limit = TOLERANCE[str(self.kernel.variant.params["dtype"])]
        torch.testing.assert_close(self.out.double(), out, rtol=0, atol=limit)
        torch.testing.assert_close(self.lse.double(), lse, rtol=0, atol=2e-5)


def batch(
    kernel: Kernel,
    lengths: list[int],
    group: int,
    heads: int = 2,
    scale: float = 0.31,
    unused: float = math.nan,
    seed: int = 0,
) -> Call:
    """A call on random pages in random order; every slot outside the rows holds `unused`."""
    draw = torch.Generator().manual_seed(seed)
    params, dtype = kernel.variant.params, DTYPES[str(kernel.variant.params["dtype"])]
    size, dim, part = (int(params[name]) for name in ("block_size", "head_dim", "partition_size"))
    pages = [-(-length // size) for length in lengths]
    blocks = sum(pages) + 2
    ids = torch.randperm(blocks, generator=draw).tolist()
    table = torch.full((len(lengths), max(pages, default=0) + 1), -7, dtype=torch.int32)
    caches = [torch.full((blocks, heads, size, dim), unused, dtype=dtype) for _ in "kv"]
    for row, length in enumerate(lengths):
        mine, ids = ids[: pages[row]], ids[pages[row] :]
        table[row, : pages[row]] = torch.tensor(mine, dtype=torch.int32)
        for cache in caches:
            rows = torch.randn(length, heads, dim, generator=draw) * 0.5
            for page, block in enumerate(mine):
                part_of = rows[page * size : (page + 1) * size].transpose(0, 1).to(dtype)
                cache[block, :, : part_of.shape[1]] = part_of
    layout = kernel.variant.op.layouts[str(params["layout"])]
    shape = (len(lengths), group * heads)
    parts = -(-max(*lengths, 1, 1) // part) if part else 1
    q = torch.randn(*shape, dim, generator=draw).to(dtype)
    work = {
        "seq_lens": torch.tensor(lengths, dtype=torch.int32),
        "exp_sums": torch.full((*shape, parts), math.nan),
        "max_logits": torch.full((*shape, parts), math.nan),
        "tmp_out": torch.full((*shape, parts, dim), math.nan),
    }
    k, v = in_order(caches[0], layout.k), in_order(caches[1], layout.v)
    return Call(kernel, lengths, group, scale, q, k, v, table, torch.empty_like(q), torch.empty(shape), work)


def lengths_of(kernel: Kernel) -> list[int]:
    size = int(kernel.variant.params["block_size"])
    return [1, 0, size, size + 1, 3 * size - 1, 77, 300]


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Kernel:
    return decode(request.param)


def test_every_group_and_thread_count(variant: Kernel) -> None:
    reuse = int(variant.variant.params["reuse_kv_times"])
    for group in sorted({1, max(1, reuse - 1), reuse, reuse + 1, 2 * reuse + 1}):
        for threads in (1, 2, 5):
            batch(variant, lengths_of(variant), group).check(threads)


@pytest.mark.parametrize(("name", "flags"), OTHER_LANES)
def test_other_register_widths(name: str, flags: tuple[str, ...]) -> None:
    one = decode(name, flags)
    for group in (1, 3, 8):
        batch(one, lengths_of(one), group).check(threads=2)


@pytest.mark.parametrize("unused", [math.nan, math.inf])
def test_unused_slots_change_no_bit(variant: Kernel, unused: float) -> None:
    clean = batch(variant, lengths_of(variant), 3, unused=0.0)
    dirty = batch(variant, lengths_of(variant), 3, unused=unused)
    assert clean.run()[0] == dirty.run()[0] == 0
    assert torch.equal(clean.out, dirty.out)
    assert torch.equal(clean.lse, dirty.lse)


def test_nan_in_a_used_slot_stays_nan(variant: Kernel) -> None:
    call = batch(variant, [70], 2)
    call.q[0, 0, 3] = math.nan
    assert call.run()[0] == 0
    assert call.out[0, 0].isnan().all() and call.lse[0, 0].isnan()
    assert not call.out[0, 1:].isnan().any()


@pytest.mark.parametrize("scale", [-0.2, 0.0, 3.0])
def test_scales(variant: Kernel, scale: float) -> None:
    batch(variant, [65, 2], 2, scale=scale).check()


def test_rows_without_tokens(variant: Kernel) -> None:
    call = batch(variant, [0, 0, 0], 2)
    assert call.run(threads=2)[0] == 0
    assert torch.equal(call.out, torch.zeros_like(call.out))
    assert torch.equal(call.lse, torch.full_like(call.lse, -math.inf))
    assert batch(variant, [], 2).run()[0] == 0


def test_lse_is_optional(variant: Kernel) -> None:
    call, other = (batch(variant, [100, 3], 2) for _ in range(2))
    call.run()
    other.lse.fill_(7.0)
    assert other.run(lse=0)[0] == 0
    assert torch.equal(call.out, other.out)
    assert (other.lse == 7.0).all()


@pytest.mark.parametrize("length", [-1, 101])
def test_a_length_out_of_range(variant: Kernel, length: int) -> None:
    call = batch(variant, [100, 3], 2)
    call.out.fill_(5.0)
    call.work["seq_lens"][1] = length
    limit = 100
    assert call.run(threads=2) == (ERRORS["seq_len"], [ERRORS["seq_len"], 1, limit, length])
    assert (call.out == 5.0).all()


def test_a_length_past_the_table(variant: Kernel) -> None:
    call = batch(variant, [100, 3], 2)
    limit = call.table.shape[1] * int(variant.variant.params["block_size"])
    call.work["seq_lens"][0] = limit + 1
    code, error = call.run(max_seq_len=10**6)
    assert (code, error) == (ERRORS["seq_len"], [ERRORS["seq_len"], 0, limit, limit + 1])


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_a_block_out_of_range(variant: Kernel, wrong: int) -> None:
    call = batch(variant, [2, 300], 2)
    call.out.fill_(5.0)
    last = -(-300 // int(variant.variant.params["block_size"])) - 1
    call.table[1, last] = wrong
    assert call.run(threads=2) == (ERRORS["block_id"], [ERRORS["block_id"], 1, last, wrong])
    assert (call.out == 5.0).all()


def test_another_version_of_the_block(variant: Kernel) -> None:
    assert batch(variant, [5], 1).run(abi=99)[0] == ERRORS["abi"]
    assert batch(variant, [5], 1).run(words=3)[0] == ERRORS["abi"]


def test_parts_do_not_depend_on_threads() -> None:
    one = decode("split")
    results = []
    for threads in (1, 2, 3, 8):
        call = batch(one, [700, 5, 129, 0, 1030], 7)
        assert call.run(threads)[0] == 0
        results.append((call.out, call.lse))
    for out, lse in results[1:]:
        assert torch.equal(out, results[0][0])
        assert torch.equal(lse, results[0][1])


def test_workspaces_are_used_as_documented() -> None:
    """Only rows of several parts touch them, and what they hold adds up to the result."""
    call = batch(decode("split"), [128, 300], 3)
    call.check(threads=2)
    assert call.work["exp_sums"][0].isnan().all() and call.work["tmp_out"][0].isnan().all()
    sums, logits, parts = (call.work[name][1].double() for name in ("exp_sums", "max_logits", "tmp_out"))
    weights = sums * torch.exp2(logits - logits.amax(-1, keepdim=True))
    merged = (weights.unsqueeze(-1) * parts).sum(1) / weights.sum(-1, keepdim=True)
    torch.testing.assert_close(merged, call.out[1].double(), rtol=0, atol=2e-3)
    lse = (logits.amax(-1) + torch.log2(weights.sum(-1))) * math.log(2)
    torch.testing.assert_close(lse, call.lse[1].double(), rtol=0, atol=1e-5)


def test_one_long_row_is_shared_out() -> None:
    """131,072 tokens in one pass, cut among threads and merged."""
    one = decode("vllm")
    batch(one, [131072, 3], 1, heads=1).check(threads=3)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_many_heads_take_a_tile_in_turns(layout: str) -> None:
    """More keys and values than a tile may hold: fewer heads at once where a head lies together in a page,
    else fewer tokens."""
    params = dict(zip(AXES, ("f32", 128, 64, layout, 1, 0), strict=True))
    for heads in (24, 33):
        batch(kernel("paged_attention", **params), [130, 64, 0, 7], group=1, heads=heads).check(threads=2)


def test_strides_are_honoured() -> None:
    """Queries cut out of a fused projection, keys and values interleaved, results in a wider tensor."""
    call = batch(decode("bshd"), [100, 20], 3)
    fused = torch.full((2, 3, *call.q.shape[1:]), math.nan, dtype=call.q.dtype)
    fused[:, 0] = call.q
    both = torch.stack([call.k, call.v], dim=-2)
    wide = torch.full((2, 9, 256), 1.5, dtype=call.q.dtype)
    spread = replace(call, q=fused[:, 0], k=both[..., 0, :], v=both[..., 1, :], out=wide[:, 2:8, :128])
    assert spread.q.stride() != call.q.stride() and spread.k.stride() != call.k.stride()
    spread.check(threads=2)
    assert (wide[..., 128:] == 1.5).all() and (wide[:, :2] == 1.5).all() and (wide[:, 8:] == 1.5).all()


ORDERS = """
  k_transposed: {k: [block, head, dim, token], v: [block, head, dim/x, token, x]}
  heads_inside: {k: [block, token, dim/4, head, 4], v: [head, block, token, dim]}
  odd_groups: {k: [block, dim/32, head, token, 32], v: [token, block, head, dim]}
"""


@pytest.mark.parametrize("layout", ["k_transposed", "heads_inside", "odd_groups"])
def test_layouts_nobody_has_named_yet(layout: str, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    for path in specs_dir().rglob("*.yaml"):
        copy = specs / path.relative_to(specs_dir())
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text() + (ORDERS if path.name == "layouts.yaml" else ""))
    params = dict(zip(AXES, ("f16", 64, 16, layout, 2, 0), strict=True))
    one = kernel("paged_attention", catalog=load_catalog(specs), **params)
    for group in (1, 5):
        batch(one, lengths_of(one), group).check(threads=2)
