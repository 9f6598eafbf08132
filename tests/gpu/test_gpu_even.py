"""Even shares on a GPU: the same bits each time, in graphs whose lengths change, for all kinds of rows."""

import math

import pytest
import torch

from kgen import ops
from tests.gpu.test_gpu_calls import BLOCK, DEVICE, DIM, EVEN, HEADS, exact, make, near

BATCHES = {
    "one": [20_000],
    "long among short": [30_000, *(1 + 7 * row % 60 for row in range(63))],
    "empty": [0, 0, 0],
    "some empty": [0, 5000, 0, 1, 0],
    "many": [(97 * row) % 1100 for row in range(300)],
}


def call(args, longest=None, **options):
    longest = int(args[4].max()) if longest is None else longest
    return ops.paged_attention(*args, max_seq_len=longest, partition_size=EVEN, return_lse=True, **options)


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_all_kinds(name):
    args = make(BATCHES[name])
    near(*call(args), exact(*args))


@pytest.mark.parametrize("name", ["one", "long among short", "many"])
def test_twenty_runs_give_the_same_bits(name):
    args = make(BATCHES[name], dtype=torch.bfloat16)
    out, lse = call(args)
    for _ in range(20):
        again, lse_again = call(args)
        assert torch.equal(out, again) and torch.equal(lse, lse_again)


def test_a_graph_follows_lengths_that_change_in_place():
    lengths = [9000, 40, 700, 0, 2500]
    args = make(lengths)
    out, lse = torch.empty_like(args[0]), torch.empty(len(lengths), HEADS, device=DEVICE)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(args, 9000, out=out, lse=lse)
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        call(args, 9000, out=out, lse=lse)
    for now in (lengths, [1, 40, 0, 0, 17], [0] * 5, [8999, 1, 700, 0, 64], lengths):
        args[4].copy_(torch.tensor(now, dtype=torch.int32))
        out.fill_(math.nan), lse.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        near(out, lse, exact(*args))


def test_a_graph_captured_without_a_call_before_it():
    """The workspace is allocated and cleared within the capture; calls outside of it find zeros too."""
    ops.dispatcher().workspaces.release()
    args = make([5000, 30])
    call(args)  # loads the kernel, on another stream
    want = exact(*args)
    out, lse = torch.empty_like(args[0]), torch.empty(2, HEADS, device=DEVICE)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(graph, stream=stream):
        call(args, 5000, out=out, lse=lse)
    with torch.cuda.stream(stream):
        near(*call(args), want)
        for _ in range(3):
            out.fill_(math.nan)
            graph.replay()
            near(out, lse, want)
            near(*call(args), want)


def test_a_dirty_workspace_is_not_seen():
    args = make([12_000, 33, 900])
    want = exact(*args)
    for _ in range(3):
        stream = torch.cuda.current_stream().cuda_stream
        ops.dispatcher().workspaces.reserve(1, "cuda:0", stream).fill_(0xFF)
        near(*call(args), want)


@pytest.mark.parametrize(("heads", "reuse"), [(100, 64), (130, 128), (256, 128)])
def test_groups_that_teams_multiply(heads, reuse):
    """Groups of 50, 65 and 128 heads; one row is in many pieces."""
    q, *rest = make([30_000, 77, 0, 450])
    args = [torch.randn(4, heads, DIM, dtype=q.dtype, device=DEVICE), *rest]
    near(*call(args, reuse_kv_times=reuse), exact(*args))


@pytest.mark.parametrize("layout", ["bhsd", "bhsd_vt", "vllm"])
@pytest.mark.parametrize("heads", [2, 10, 24])
def test_layouts_and_groups(layout, heads):
    """Groups of 1, 5 and 12 heads, in passes of 4."""
    q, k, v, table, lengths = make([3000, 77, 0, 450])
    q = torch.randn(4, heads, DIM, dtype=q.dtype, device=DEVICE)
    want = exact(q, k, v, table, lengths)
    if layout == "vllm":
        k = k.view(-1, BLOCK, 2, DIM // 8, 8).permute(0, 2, 3, 1, 4).contiguous()
        v = v.permute(0, 2, 3, 1).contiguous()
    else:
        k = k.permute(0, 2, 1, 3).contiguous()
        v = (v.permute(0, 2, 3, 1) if layout == "bhsd_vt" else v.permute(0, 2, 1, 3)).contiguous()
    near(*call([q, k, v, table, lengths], layout=layout, reuse_kv_times=4), want)
