"""The operators inside torch: compiled graphs, opcheck, fake tensors, modes."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from kgen import ops
from kgen.dispatch.operators import OPERATORS, PAGED_ATTENTION
from kgen.dispatch.torchops import schema
from tests.dispatch.batch import BLOCK, HEAD_DIM, Batch, close

LENS = [5, 0, 77, 1, 16, 17, 47]
CHOICES = ("bshd", None, None, None, None, None)


def samples():
    """Arguments of one call of each operator in its torch form."""
    batch = Batch([5, 17])
    caches = [torch.randn(6, BLOCK, 2, HEAD_DIM) for _ in "kv"]
    new = torch.randn(3, 2, HEAD_DIM)
    out, lse = torch.zeros_like(batch.q), torch.zeros(batch.q.shape[:2])
    pairs = torch.tensor([[0, 3], [4, 1]])
    return {
        "paged_attention": (out, lse, *batch.tensors(), None, None, 0.2, 17, *CHOICES),
        "extend_attention": extend_sample(),
        "merge_states": (
            torch.zeros(3, 2, HEAD_DIM),
            torch.zeros(3, 2),
            torch.randn(3, 4, 2, HEAD_DIM),
            torch.randn(3, 4, 2),
            None,
        ),
        "reshape_and_cache": (new, new, *caches, torch.tensor([0, 33, -1]), None, None, "bshd", None),
        "copy_blocks": (caches[0], pairs, None),
        "swap_blocks": (caches[0], caches[1], pairs, None),
    }


def extend_sample():
    """Two sequences of new tokens, the first behind 5 others, in slots."""
    new = [torch.randn(6, 2, HEAD_DIM) for _ in "kv"]
    caches = [torch.randn(9, 1, 2, HEAD_DIM) for _ in "kv"]
    indices = [[0, 4, 6], [0, 5, 5], [3, 1, 8, 0, 2], [9, 2]]
    arrays = [torch.tensor(values, dtype=torch.int32) for values in indices]
    q, lse = torch.randn(6, 4, HEAD_DIM), torch.zeros(6, 4)
    return (torch.zeros_like(q), lse, q, *caches, *new, *arrays, None, None, 0.2, 4, 9, 1, "bshd", None, None)


def test_there_is_a_sample_of_every_operator():
    assert samples().keys() == OPERATORS.keys()


def test_schemas_mark_what_is_written():
    assert schema(PAGED_ATTENTION) == (
        "paged_attention(Tensor(a!) out, Tensor(b!)? lse, Tensor q, Tensor k_cache, Tensor v_cache, "
        "Tensor block_table, Tensor seq_lens, Tensor? k_scale, Tensor? v_scale, "
        "float? softmax_scale, SymInt? max_seq_len, str? layout, "
        "SymInt? partition_size, SymInt? reuse_kv_times, str? policy, str? variant, str? arch, "
        "Tensor[]? variant_tensors=None, SymInt[]? variant_ints=None, float[]? variant_floats=None, "
        "str[]? variant_names=None) -> ()"
    )


@pytest.mark.parametrize("name", list(OPERATORS))
def test_opcheck(name):
    result = torch.library.opcheck(getattr(torch.ops.kgen, name), samples()[name])
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_decode_step_compiles_whole(backend, dynamic):
    torch._dynamo.reset()
    batch = Batch([4, 20, 0])
    slots = torch.tensor([int(batch.block_table[0, 0]) * BLOCK + 4, -1, -1])

    def step(q, k_cache, v_cache, key, value, max_seq_len):
        ops.reshape_and_cache(key, value, k_cache, v_cache, slots)
        out, lse = ops.paged_attention(
            q * 2,
            k_cache,
            v_cache,
            batch.block_table,
            batch.seq_lens,
            max_seq_len=max_seq_len,
            return_lse=True,
        )
        return out + 1, lse

    compiled = torch.compile(step, fullgraph=True, backend=backend, dynamic=dynamic)
    batch.seq_lens[0] = 5
    for seed in (1, 2):
        torch.manual_seed(seed)
        new = torch.randn(2, 3, 2, HEAD_DIM)
        eager = step(batch.q, batch.k.clone(), batch.v.clone(), *new, 20 + seed)
        k_cache, v_cache = batch.k.clone(), batch.v.clone()
        out, lse = compiled(batch.q, k_cache, v_cache, *new, 20 + seed)
        assert torch.equal(out, eager[0])
        assert torch.equal(lse, eager[1])
        assert torch.equal(k_cache.view(-1, 2, HEAD_DIM)[slots[0]], new[0, 0])


def test_merge_copy_and_swap_compile_whole():
    torch._dynamo.reset()

    def step(states, lse, cache, other, pairs):
        ops.copy_blocks(cache, pairs)
        ops.swap_blocks(cache, other, pairs)
        return ops.merge_states(states, lse)

    states, lse = torch.randn(3, 4, 2, HEAD_DIM), torch.randn(3, 4, 2)
    cache, pairs = torch.randn(6, BLOCK, 2, HEAD_DIM), torch.tensor([[0, 3], [4, 1]])
    mine, other = [cache.clone(), torch.zeros_like(cache)], [cache.clone(), torch.zeros_like(cache)]
    expected = step(states, lse, *mine, pairs)
    got = torch.compile(step, fullgraph=True, backend="aot_eager")(states, lse, *other, pairs)
    assert all(map(torch.equal, (*got, *other), (*expected, *mine)))


def test_fake_tensors_have_shapes_and_run_nothing():
    with FakeTensorMode():
        q = torch.empty(3, 4, HEAD_DIM)
        cache = torch.empty(9, BLOCK, 2, HEAD_DIM)
        table = torch.empty(3, 5, dtype=torch.int32)
        lengths = torch.empty(3, dtype=torch.int32)
        out, lse = ops.paged_attention(q, cache, cache, table, lengths, max_seq_len=80, return_lse=True)
        assert (out.shape, out.dtype) == ((3, 4, HEAD_DIM), torch.float32)
        assert lse.shape == (3, 4)


def test_an_exported_program_holds_the_operator():
    batch = Batch(LENS)

    class Step(torch.nn.Module):
        def forward(self, q):
            return batch_run(batch, q * 2)

    program = torch.export.export(Step(), (batch.q,), strict=False)
    targets = {str(node.target) for node in program.graph.nodes}
    assert any("kgen.paged_attention" in target for target in targets)
    assert torch.equal(program.module()(batch.q), batch_run(batch, batch.q * 2))


def test_a_mode_sees_the_call():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    batch = Batch(LENS)
    with Watch():
        out = batch.run()
    assert torch.ops.kgen.paged_attention.default in seen
    close(out, batch.expected()[0])


def test_a_tensor_subclass_goes_through_torch():
    class Mine(torch.Tensor):
        pass

    batch = Batch(LENS)
    expected = batch.run()
    batch.q = batch.q.as_subclass(Mine)
    assert torch.equal(batch.run().as_subclass(torch.Tensor), expected)


def test_parameters_and_tensors_that_want_gradients_are_plain():
    batch = Batch(LENS)
    expected = batch.run()
    batch.q = torch.nn.Parameter(batch.q)
    out = batch.run()
    assert torch.equal(out, expected)
    assert not out.requires_grad


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
def test_a_decode_step_compiles_to_native_code():
    torch._dynamo.reset()
    batch = Batch(LENS)
    step = torch.compile(lambda q: batch_run(batch, q * 2) + 1, fullgraph=True)
    torch.testing.assert_close(step(batch.q), batch_run(batch, batch.q * 2) + 1)


def batch_run(batch, q):
    return ops.paged_attention(
        q, batch.k, batch.v, batch.block_table, batch.seq_lens, max_seq_len=batch.max_seq_len
    )
