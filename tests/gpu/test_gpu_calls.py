"""What a call on a GPU promises beyond its numbers: errors, graphs, strides, streams, large offsets."""

import math

import pytest
import torch

from kgen import ops, reference
from kgen.diagnostics import KgenError
from kgen.layout import Layout, TensorOrder

BSHD = Layout(
    "bshd", TensorOrder(("block", "token", "head", "dim")), TensorOrder(("block", "token", "head", "dim"))
)
DIM, BLOCK, HEADS, KV_HEADS = 128, 16, 8, 2
DEVICE = "cuda"
EVEN = -1


def make(lengths, num_blocks=None, seed=0, dtype=torch.float16):
    """q, k, v, table and lengths on the device; pages shuffled, unused slots NaN."""
    generator = torch.Generator().manual_seed(seed)
    pages = [-(-length // BLOCK) for length in lengths]
    total = num_blocks or sum(pages) + 2
    ids = torch.randperm(total, generator=generator)[: sum(pages)].split(pages)
    table = torch.full((len(lengths), max(*pages, 1)), -1, dtype=torch.int32)
    k, v = (torch.full((total, BLOCK, KV_HEADS, DIM), math.nan, dtype=dtype) for _ in range(2))
    for row, own in enumerate(ids):
        table[row, : len(own)] = own
        for index, page in enumerate(own.tolist()):
            used = min(BLOCK, lengths[row] - index * BLOCK)
            for cache in (k, v):
                cache[page, :used] = torch.randn(used, KV_HEADS, DIM, generator=generator).to(dtype)
    q = torch.randn(len(lengths), HEADS, DIM, generator=generator).to(dtype)
    return [t.to(DEVICE) for t in (q, k, v, table, torch.tensor(lengths, dtype=torch.int32))]


def exact(q, k, v, table, lengths):
    """The oracle on the CPU: out and lse."""
    on_host = [t.cpu() for t in (q, k, v, table, lengths)]
    return reference.paged_attention(*on_host, DIM**-0.5, BSHD)


def near(out, lse, want):
    torch.testing.assert_close(out.cpu().double(), want[0], rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(lse.cpu().double(), want[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("partition_size", [0, 512, EVEN])
def test_bad_block_id_makes_its_row_nan_and_is_told_once(partition_size):
    args = make([1100, 700, 1300])
    want = exact(*args)
    args[3][1, 40] = 10_000
    out, lse = ops.paged_attention(*args, max_seq_len=1300, return_lse=True, partition_size=partition_size)
    with pytest.raises(KgenError, match=r"row 1, page.* 40: block id 10000"):
        ops.check()
    ops.check()
    assert out[1].isnan().all() and lse[1].isnan().all()
    keep = [0, 2]
    near(out[keep], lse[keep], [part[keep] for part in want])


def test_kgen_check_raises_in_the_call_itself(monkeypatch):
    monkeypatch.setenv("KGEN_CHECK", "1")
    args = make([100, 90])
    args[4][1] = -3
    with pytest.raises(KgenError, match="row 1: sequence length -3"):
        ops.paged_attention(*args, max_seq_len=100)
    args[4][1] = 90
    ops.paged_attention(*args, max_seq_len=100)


def test_a_length_past_max_seq_len_is_told():
    args = make([100, 90])
    ops.paged_attention(*args, max_seq_len=95)
    with pytest.raises(KgenError, match="row 0: sequence length 100 is outside 0 to 95"):
        ops.check()


@pytest.mark.parametrize("partition_size", [0, 512, EVEN])
def test_a_captured_graph_follows_new_lengths_tables_and_a_dirty_workspace(partition_size):
    long, short = make([1500, 900, 1]), make([3, 0, 1200], num_blocks=200, seed=1)
    static = [torch.empty_like(t) for t in long]
    for index in (1, 2):
        static[index] = torch.empty(
            (max(long[index].shape[0], 200), *long[index].shape[1:]), dtype=torch.float16, device=DEVICE
        )
    out = torch.empty_like(static[0])
    lse = torch.empty(out.shape[:2], device=DEVICE)

    def load(args):
        for into, new in zip(static, args, strict=True):
            into[tuple(slice(0, n) for n in new.shape)] = new

    def call():
        ops.paged_attention(*static, max_seq_len=1500, out=out, lse=lse, partition_size=partition_size)

    load(long)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        call()
    for args in (long, short, long):
        load(args)
        out.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        near(out, lse, exact(*args))


def test_growing_the_workspace_leaves_a_captured_graph_its_own():
    args = make([1500, 1400])
    out, lse = torch.empty_like(args[0]), torch.empty(2, HEADS, device=DEVICE)
    stream = torch.cuda.Stream()

    def call(q, out, lse):
        ops.paged_attention(q, *args[1:], max_seq_len=1500, out=out, lse=lse, partition_size=512)

    with torch.cuda.stream(stream):
        call(args[0], out, lse)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call(args[0], out, lse)
        many = make([1500] * 16)
        ops.paged_attention(*many, max_seq_len=1500, partition_size=512)
        torch.full((1 << 20,), math.nan, device=DEVICE)  # takes freed memory
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    near(out, lse, exact(*args))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_call_neither_waits_nor_allocates_once_it_is_warm():
    args = make([1100, 700])
    out, lse = torch.empty_like(args[0]), torch.empty(2, HEADS, device=DEVICE)

    def call():
        ops.paged_attention(*args, max_seq_len=1100, out=out, lse=lse, partition_size=512)

    call()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    try:
        torch.cuda.set_sync_debug_mode("error")
        call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_interleaved_caches_and_sliced_queries_are_honoured():
    q, k, v, table, lengths = make([77, 16, 130])
    want = exact(q, k, v, table, lengths)
    both = torch.stack((k, v), dim=1)
    fused = torch.cat((torch.zeros_like(q), q), dim=1)
    out, lse = ops.paged_attention(
        fused[:, HEADS:], both[:, 0], both[:, 1], table, lengths, max_seq_len=130, return_lse=True
    )
    near(out, lse, want)


def test_rows_off_their_16_bytes_are_refused():
    q, k, v, table, lengths = make([40])
    wide = torch.zeros(1, HEADS, DIM + 1, dtype=q.dtype, device=DEVICE)
    with pytest.raises(KgenError, match="q has a stride of 129 elements"):
        ops.paged_attention(wide[..., :DIM], k, v, table, lengths, max_seq_len=40)
    shifted = torch.zeros(q.numel() + 1, dtype=q.dtype, device=DEVICE)[1:].view(q.shape)
    with pytest.raises(KgenError, match="not aligned to 16 bytes"):
        ops.paged_attention(shifted, k, v, table, lengths, max_seq_len=40)


def test_offsets_past_two_to_the_31_elements():
    q, k, v, table, lengths = make([100, 33])
    blocks = 2**31 // (BLOCK * KV_HEADS * DIM) + 70_000
    far_k, far_v = (torch.empty(blocks, BLOCK, KV_HEADS, DIM, dtype=q.dtype, device=DEVICE) for _ in range(2))
    shift = blocks - k.shape[0]
    far_k[shift:], far_v[shift:] = k, v
    out, lse = ops.paged_attention(
        q, far_k, far_v, torch.where(table >= 0, table + shift, -1), lengths, max_seq_len=100, return_lse=True
    )
    near(out, lse, exact(q, k, v, table, lengths))


def test_a_cpu_arch_on_cuda_tensors_is_refused():
    args = make([16])
    with pytest.raises(KgenError, match="does not run on tensors on cuda"):
        ops.paged_attention(*args, max_seq_len=16, arch="cpu_generic")
