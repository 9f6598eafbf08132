"""Decode attention against the float64 oracle, and its contracts, through both bindings."""

import math
import threading

import pytest
import torch

from kgen import check, ops, reference
from kgen.diagnostics import KgenError
from tests.dispatch.batch import BLOCK, BSHD, HEAD_DIM, Batch, close


@pytest.fixture(autouse=True)
def _launcher(launcher, fresh):
    pass


LENS = [5, 0, 77, 1, 16, 17, 47]


@pytest.mark.parametrize(
    "options", [{}, {"policy": "split"}, {"policy": "single_pass"}, {"partition_size": 64}]
)
def test_values(options):
    batch = Batch(LENS)
    out, lse = batch.run(return_lse=True, **options)
    expected, expected_lse = batch.expected()
    close(out, expected)
    close(lse, expected_lse)
    assert out[1].eq(0).all()
    assert lse[1].eq(-math.inf).all()


def test_the_callers_scale_counts():
    batch = Batch(LENS)
    close(batch.run(softmax_scale=0.3), batch.expected(0.3)[0])
    close(batch.run(softmax_scale=0.7), batch.expected(0.7)[0])
    close(batch.run(), batch.expected()[0])


def test_numbers_may_be_tensors_of_one_element():
    batch = Batch(LENS)
    expected = batch.run(softmax_scale=0.5)
    length = torch.tensor(batch.max_seq_len)
    assert torch.equal(batch.run(softmax_scale=torch.tensor(0.5), max_seq_len=length), expected)


def test_given_outputs_are_written():
    batch = Batch(LENS)
    out, lse = torch.full_like(batch.q, torch.nan), torch.full(batch.q.shape[:2], torch.nan)
    assert batch.run(out=out, lse=lse) is out
    close(out, batch.expected()[0])
    close(lse, batch.expected()[1])


@pytest.mark.parametrize("group", [*range(1, 18), 32])
def test_every_group_is_served_by_one_kernel_in_passes(group, monkeypatch):
    Batch([3]).run(reuse_kv_times=4)  # build it
    monkeypatch.setenv("KGEN_JIT", "0")
    batch = Batch([19, 0, 3], heads=2 * group)
    close(batch.run(reuse_kv_times=4), batch.expected()[0])


@pytest.mark.parametrize("partition_size", [0, 512])
def test_long_rows_among_short_ones(partition_size):
    """Rows past 16K and 128K tokens; pages are shared, so that the memory stays small."""
    lens = [131_073, 3, 16_385, 0, 512, 513]
    batch = Batch([1024], heads=2, kv_heads=1)
    pages = batch.block_table[0, :64].clone()
    width = -(-max(lens) // BLOCK)
    batch.block_table = torch.stack(
        [pages.roll(row).repeat(-(-width // 64))[:width] for row in range(len(lens))]
    )
    batch.seq_lens = torch.tensor(lens, dtype=torch.int32)
    batch.q = torch.randn(len(lens), 2, HEAD_DIM, generator=torch.Generator().manual_seed(1))
    out, lse = batch.run(return_lse=True, partition_size=partition_size, max_seq_len=max(lens))
    expected, expected_lse = batch.expected()
    close(out, expected, 2e-5)
    close(lse, expected_lse, 2e-5)


def test_strides_are_honoured():
    """K and V in one tensor, queries sliced from a fused projection, outputs and table sliced."""
    plain = Batch(LENS)
    expected = plain.run()
    pair = torch.stack((plain.k, plain.v), dim=1)
    fused = torch.full((len(LENS), 4 + 2 + 2, HEAD_DIM), torch.nan)
    fused[:, :4] = plain.q
    wide = torch.full((len(LENS), plain.block_table.shape[1] + 5), -7, dtype=torch.int32)
    wide[:, : plain.block_table.shape[1]] = plain.block_table
    out = torch.full((len(LENS), 6, HEAD_DIM), 9.0)
    ops.paged_attention(
        fused[:, :4],
        pair[:, 0],
        pair[:, 1],
        wide[:, : plain.block_table.shape[1]],
        plain.seq_lens,
        max_seq_len=plain.max_seq_len,
        out=out[:, 1:5],
    )
    assert torch.equal(out[:, 1:5], expected)
    assert out[:, 0].eq(9).all()
    assert out[:, 5].eq(9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: {"q": b.q.transpose(1, 2)}, "q axis dim has stride 64; the last axis must be contiguous"),
        (lambda b: {"seq_lens": torch.zeros(14, dtype=torch.int32)[::2]}, "seq_lens axis seq has stride 2"),
        (lambda b: {"out": b.q[:1].expand(7, 4, HEAD_DIM)}, "out is written, but its strides"),
        (lambda b: {"block_table": b.block_table.long()}, "block_table is i64; it must be i32"),
        (lambda b: {"q": b.q.half()}, "out is f32, but dtype is f16 (from q)"),
        (lambda b: {"q": b.q.double(), "out": None}, "q is float64, which is no dtype"),
        (lambda b: {"v_cache": b.v[:-1]}, "v_cache axis block is"),
        (lambda b: {"q": b.q[:3]}, "block_table axis seq is 7, but num_seqs is 3 (from q axis seq)"),
        (lambda b: {"layout": "bsdh"}, "no layout is named 'bsdh'"),
        (lambda b: {"layout": "dcu_layout2"}, "the v order of layout 'dcu_layout2' is not known"),
        (lambda b: {"partition_size": "many"}, "partition_size='many', but partition_size is an int"),
        (lambda b: {"reuse_kv_times": 9}, "reuse_kv_times=9, which is no reuse_kv_times"),
        (lambda b: {"policy": "best"}, "no policy is named 'best'"),
        (lambda b: {"variant": "casual"}, "casual"),
        (lambda b: {"max_seq_len": -1}, "max_seq_len is a length"),
        (lambda b: {"max_seq_len": None}, "max_seq_len"),
        (lambda b: {"max_seq_len": 77.0}, "max_seq_len must be an integer, found float"),
        (lambda b: {"max_seq_len": True}, "max_seq_len must be an integer, found bool"),
        (lambda b: {"softmax_scale": "wide"}, "softmax_scale must be a number, found str"),
        (lambda b: {"q": [1.0]}, "q must be a tensor, found list"),
        (lambda b: {"seq_lens": [1] * 7}, "seq_lens must be a tensor, found list"),
        (lambda b: {"k_cache": b.k.to_sparse()}, "a tensor is sparse_coo; kernels read strided ones"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change, message):
    batch = Batch(LENS)
    out = torch.full_like(batch.q, 9.0)
    given = dict(zip(("q", "k_cache", "v_cache", "block_table", "seq_lens"), batch.tensors(), strict=True))
    options = {"out": out, "max_seq_len": batch.max_seq_len, **given, **change(batch)}
    with pytest.raises(KgenError) as caught:
        ops.paged_attention(**options)
    assert message in str(caught.value)
    assert out.eq(9).all()


@pytest.mark.parametrize("head_dim", [40, 72, 80, 96, 112])
def test_head_dims_that_are_no_power_of_two(head_dim):
    draw = torch.Generator().manual_seed(head_dim)
    q = torch.randn(2, 4, head_dim, generator=draw)
    k, v = (torch.randn(3, BLOCK, 2, head_dim, generator=draw) for _ in "kv")
    table, lengths = (
        torch.tensor([[2, 0], [1, 0]], dtype=torch.int32),
        torch.tensor([20, 3], dtype=torch.int32),
    )
    out = ops.paged_attention(q, k, v, table, lengths, max_seq_len=20)
    close(out, reference.paged_attention(q, k, v, table, lengths, head_dim**-0.5, BSHD)[0])


@pytest.mark.parametrize("head_dim", [100, 264])
def test_a_head_dim_no_rule_allows_is_refused(head_dim):
    with pytest.raises(KgenError) as caught:
        ops.paged_attention(
            torch.randn(1, 1, head_dim),
            *(torch.randn(1, BLOCK, 1, head_dim) for _ in "kv"),
            torch.zeros(1, 1, dtype=torch.int32),
            torch.ones(1, dtype=torch.int32),
            max_seq_len=1,
        )
    assert caught.value.diagnostics[0].code == "K522"
    assert caught.value.diagnostics[0].span is not None


@pytest.mark.parametrize("options", [{"partition_size": 0}, {"partition_size": 64}])
@pytest.mark.parametrize("bad", [-1, 2**30, "count"])
def test_a_page_outside_the_pool_raises_before_any_write(options, bad):
    batch = Batch(LENS)
    value = batch.k.shape[0] if bad == "count" else bad
    batch.block_table[2, 3] = value
    out, lse = torch.full_like(batch.q, 9.0), torch.full(batch.q.shape[:2], 9.0)
    with pytest.raises(KgenError) as caught:
        batch.run(out=out, lse=lse, **options)
    count = batch.k.shape[0]
    assert f"row 2, page 3: block id {value} is outside the pool of {count} blocks" in str(caught.value)
    assert f"valid block ids are 0 to {count - 1}" in str(caught.value)
    assert out.eq(9).all()
    assert lse.eq(9).all()


@pytest.mark.parametrize(("length", "limit"), [(-1, 77), (78, 77), (10_000, 100_000)])
def test_a_length_that_cannot_be_raises_before_any_write(length, limit):
    batch = Batch(LENS)
    batch.seq_lens[4] = length
    out = torch.full_like(batch.q, 9.0)
    with pytest.raises(KgenError) as caught:
        batch.run(out=out, max_seq_len=limit)
    assert f"row 4: sequence length {length} is outside 0 to" in str(caught.value)
    assert out.eq(9).all()


def test_unused_memory_never_reaches_a_result():
    batch = Batch(LENS)
    first = batch.run()
    for cache in (batch.k, batch.v):
        cache[cache.isnan()] = torch.inf
    batch.block_table[batch.block_table == 2**30] = -1
    assert torch.equal(batch.run(), first)
    for cache in (batch.k, batch.v):
        cache[cache.isinf()] = 0.0
    assert torch.equal(batch.run(), first)


@pytest.mark.parametrize("options", [{}, {"partition_size": 64}])
def test_empty_rows_and_empty_batches(options):
    out, lse = Batch([0, 0, 0]).run(return_lse=True, **options)
    assert out.eq(0).all()
    assert lse.eq(-math.inf).all()
    none = Batch([])
    out, lse = none.run(return_lse=True, max_seq_len=5, **options)
    assert out.shape == (0, 4, HEAD_DIM)
    assert lse.shape == (0, 4)


def test_a_dirty_workspace_is_not_seen():
    """Rows of one part and of many, over a workspace of NaN, a large batch before a small one."""
    workspaces = ops.dispatcher().workspaces
    for lens in ([700, 64, 65, 0, 3], [130, 5], [64]):
        batch = Batch(lens)
        workspaces.reserve(1 << 20).fill_(0xFF)
        close(batch.run(partition_size=64), batch.expected()[0])


def test_workspace_size_is_what_is_used():
    batch = Batch([700, 64, 3], heads=8)
    batch.run(partition_size=64)
    parts = -(-700 // 64)
    expected = 3 * 8 * parts * (HEAD_DIM + 2) * 4
    sizes = {"num_seqs": 3, "num_heads": 8, "num_kv_heads": 2, "head_dim": HEAD_DIM, "block_size": BLOCK}
    call = {**sizes, "dtype": "f32", "layout": "bshd", "max_seq_len": 700, "num_blocks": 99, "max_pages": 50}
    assert ops.workspace_size("paged_attention", **call, partition_size=64) == expected
    assert ops.workspace_size("paged_attention", **call, partition_size=0) == 0
    assert ops.dispatcher().workspaces.held() == expected
    with pytest.raises(KgenError, match="has no parameter or size 'head_size'"):
        ops.workspace_size("paged_attention", **call, head_size=4)


def kernels_of(run):
    """The kernels one call launched."""
    before = ops.dispatcher().calls()
    run()
    after = ops.dispatcher().calls()
    return [name for name, count in after.items() if count > before.get(name, 0)]


def test_partition_size_by_keyword_environment_and_policy(monkeypatch):
    batch = Batch([300])
    assert kernels_of(batch.run)[0].endswith("_p0")
    monkeypatch.setenv("PA_PARTITION_SIZE", "64")
    assert kernels_of(batch.run)[0].endswith("_p64")
    assert kernels_of(lambda: batch.run(partition_size=0))[0].endswith("_p0")
    for unset in ("0", ""):
        monkeypatch.setenv("PA_PARTITION_SIZE", unset)
        assert kernels_of(batch.run)[0].endswith("_p0")
    monkeypatch.setenv("PA_PARTITION_SIZE", "72")
    with pytest.raises(KgenError, match="a partition is a whole number of pages"):
        batch.run()
    monkeypatch.setenv("PA_PARTITION_SIZE", "-64")
    with pytest.raises(KgenError, match="environment variable PA_PARTITION_SIZE is '-64'"):
        batch.run()


@pytest.mark.parametrize(("arch", "parts"), [("sim:gfx942", 128), ("sim:sm_90", 64), ("cpu_generic", 0)])
def test_the_balanced_policy_asks_the_target_of_the_call(arch, parts):
    sizes = {"num_seqs": 1, "num_heads": 8, "num_kv_heads": 8, "head_dim": HEAD_DIM, "block_size": BLOCK}
    call = {
        **sizes,
        "arch": arch,
        "dtype": "bf16",
        "layout": "bshd",
        "max_seq_len": 131_072,
        "policy": "balanced",
    }
    assert ops.workspace_size("paged_attention", **call) == 8 * parts * (HEAD_DIM + 2) * 4


@pytest.mark.parametrize(("group", "partition_size"), [(8, 512), (15, 512), (16, 256)])
def test_the_split_policy_follows_the_group(group, partition_size):
    sizes = {"num_seqs": 1, "num_heads": group, "num_kv_heads": 1, "head_dim": HEAD_DIM, "block_size": BLOCK}
    call = {**sizes, "dtype": "f32", "layout": "bshd", "max_seq_len": 1024, "policy": "split"}
    parts = 1024 // partition_size
    assert ops.workspace_size("paged_attention", **call) == group * parts * (HEAD_DIM + 2) * 4


@pytest.mark.parametrize(
    ("max_seq_len", "num_seqs", "split"),
    [(512, 1, False), (513, 1, True), (8192, 16, True), (8192, 17, False), (8193, 17, True)],
)
def test_the_default_policy_of_a_cpu_is_vllms(max_seq_len, num_seqs, split):
    sizes = {"num_seqs": num_seqs, "num_heads": 32, "num_kv_heads": 8, "head_dim": HEAD_DIM}
    call = {**sizes, "block_size": BLOCK, "dtype": "f32", "layout": "bshd", "max_seq_len": max_seq_len}
    assert (ops.workspace_size("paged_attention", **call) > 0) is split


def test_two_threads_share_no_workspace():
    batches = [Batch([900, 64, 3], seed=seed) for seed in (1, 2)]
    expected = [batch.run(partition_size=64) for batch in batches]
    wrong = []

    def work(index):
        got = [batches[index].run(partition_size=64) for _ in range(50)]
        wrong.extend(index for one in got if not torch.equal(one, expected[index]))

    workers = [threading.Thread(target=work, args=(index,)) for index in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_check_finds_nothing_on_the_cpu():
    batch = Batch(LENS)
    batch.block_table[2, 0] = -1
    with pytest.raises(KgenError):
        batch.run()
    check()


MISSING = """\
error[K520]: paged_attention: no built variant fits this call, and building on demand is off (KGEN_JIT=0)
  hint: add these lines to a build spec and run `kgen build` on it:
      variants:
        - op: paged_attention
          axes:
            arch: [cpu_generic]
            dtype: [f32]
            head_dim: [64]
            block_size: [16]
            layout: [bshd]
            reuse_kv_times: [2]
            partition_size: [0]
  note: no variant of paged_attention is built"""


def test_the_error_without_a_variant(monkeypatch, empty_cache):
    monkeypatch.setenv("KGEN_JIT", "0")
    batch = Batch(LENS)
    out = torch.full_like(batch.q, 9.0)
    with pytest.raises(KgenError) as caught:
        batch.run(out=out, arch="cpu_generic")
    assert str(caught.value) == MISSING
    assert out.eq(9).all()
