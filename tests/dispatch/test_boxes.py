"""Tensors that come in boxes: how they are said to lie, for a call of every layout."""

import pytest

from kgen import api
from kgen.dispatch.bind import bind
from kgen.dispatch.boxes import TensorMap, tensor_map
from kgen.dispatch.model import Call
from kgen.manifest import Box
from tests.dispatch.test_bind import tensor

BLOCKS, TOKENS, HEADS, DIM, ROWS = 9, 64, 2, 128, 5


@pytest.fixture(scope="module")
def policy():
    return api.compiler().policy("extend_attention")


def bound_call(policy, layout="bshd", shape=(BLOCKS, TOKENS, HEADS, DIM), strides=None, new=True, rows=ROWS):
    views = {
        "out": tensor(rows, 4, DIM, dtype="bf16"),
        "lse": None,
        "q": tensor(rows, 4, DIM, dtype="bf16"),
        "k_cache": tensor(*shape, dtype="bf16", strides=strides),
        "v_cache": tensor(*shape, dtype="bf16"),
        "k_new": tensor(rows, HEADS, DIM, dtype="bf16") if new else None,
        "v_new": tensor(rows, HEADS, DIM, dtype="bf16") if new else None,
        "qo_indptr": tensor(2, dtype="i32"),
        "kv_indptr": tensor(2, dtype="i32"),
        "kv_indices": tensor(3, dtype="i32"),
        "seq_lens": tensor(1, dtype="i32"),
    }
    scalars = {"softmax_scale": 1.0, "max_extend_len": rows, "max_seq_len": 100}
    call = Call(
        {a.name: views.get(a.name) for a in policy.arguments if a.kind in ("tensor", "cache")},
        scalars,
        {"layout": layout},
    )
    return bind(policy, call)


def place(policy, name):
    return next(i for i, w in enumerate(policy.words) if w.kind == "pointer" and w.argument == name)


def test_a_cache_is_panels_of_128_bytes_rows_heads_and_blocks(policy):
    bound = bound_call(policy)
    assert tensor_map(policy, bound, bound.names, Box("k_cache", 16)) == TensorMap(
        place(policy, "k_cache"),
        2,
        (64, TOKENS, 2, HEADS, BLOCKS),
        (2 * HEADS * DIM, 128, 2 * DIM, 2 * TOKENS * HEADS * DIM),
        (64, 16, 2, 1, 1),
    )


def test_strides_are_those_of_the_layout_and_of_the_tensor(policy):
    shape, strides = (BLOCKS, HEADS, TOKENS, DIM), (4 * HEADS * TOKENS * DIM, TOKENS * 256, 256, 1)
    bound = bound_call(policy, "bhsd", shape, strides)
    found = tensor_map(policy, bound, bound.names, Box("k_cache", 32))
    assert (found.sizes, found.box) == ((64, TOKENS, 2, HEADS, BLOCKS), (64, 32, 2, 1, 1))
    assert found.strides == (512, 128, TOKENS * 512, 8 * HEADS * TOKENS * DIM)


def test_a_box_may_be_some_of_the_panels(policy):
    bound = bound_call(policy)
    assert tensor_map(policy, bound, bound.names, Box("v_cache", 16, 64)).box == (64, 16, 1, 1, 1)


def test_new_rows_have_no_blocks_and_may_be_left_out(policy):
    bound = bound_call(policy)
    found = tensor_map(policy, bound, bound.names, Box("v_new", 16))
    assert found.place == place(policy, "v_new")
    assert (found.sizes, found.box) == ((64, ROWS, 2, HEADS, 1), (64, 16, 2, 1, 1))
    assert found.strides[:3] == (2 * HEADS * DIM, 128, 2 * DIM)
    left_out = bound_call(policy, new=False)
    assert tensor_map(policy, left_out, left_out.names, Box("v_new", 16)) == TensorMap(-1)


def test_a_tensor_without_elements_is_told_with_a_place_on_every_axis(policy):
    bound = bound_call(policy, shape=(0, TOKENS, HEADS, DIM), rows=0)
    assert tensor_map(policy, bound, bound.names, Box("k_cache", 16)).sizes == (64, TOKENS, 2, HEADS, 1)
    assert tensor_map(policy, bound, bound.names, Box("k_new", 16)).sizes == (64, 1, 2, HEADS, 1)
