"""Element offsets as C++ text: of the right value for every layout, and already simplified."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgen import layout as layouts
from kgen.diagnostics import KgenError
from kgen.layout import Sizes
from kgen.render.index import Indexer

LAYOUTS = ["bshd", "bhsd", "bhsd_vt", "vllm"]


def value_of(text, **names):
    """What a C++ expression over non-negative ints is worth."""
    assert "floor" not in text, f"a helper call where / would do: {text}"
    return eval(text.replace("/", "//"), {"__builtins__": {}}, names)


def block_for(argument, order, sizes):
    """The stride words of a contiguous cache."""
    by_axis = layouts.strides(order, sizes)
    return SimpleNamespace(**{f"{argument}_stride_{axis}": by_axis[axis] for axis in layouts.AXES})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_an_offset_is_the_layouts_own(attention, data):
    name = data.draw(st.sampled_from(LAYOUTS))
    dtype = data.draw(st.sampled_from(["f32", "bf16"]))
    size = data.draw(st.sampled_from([16, 64]))
    variant = attention(layout=name, dtype=dtype, block_size=size)
    sizes = Sizes(5, 3, size, 128, {"f32": 4, "bf16": 2}[dtype])
    place = {
        "block": data.draw(st.integers(0, 4)),
        "head": data.draw(st.integers(0, 2)),
        "token": data.draw(st.integers(0, size - 1)),
        "dim": data.draw(st.integers(0, 127)),
    }
    for argument, tensor in (("k_cache", "k"), ("v_cache", "v")):
        order = variant.op.layouts[name].order(tensor)
        text = Indexer(variant).index(argument, block="b", head="h", token="t", dim="d")
        block = block_for(argument, order, sizes)
        names = {"b": place["block"], "h": place["head"], "t": place["token"], "d": place["dim"]}
        assert value_of(text, a=block, **names) == layouts.offset(order, sizes, **place)


@pytest.mark.parametrize(
    ("layout", "tensor", "terms"),
    [
        ("bshd", "k_cache", ["p * BLOCK", "t % 16 * TOKEN", "h * HEAD", "8"]),
        ("bhsd", "k_cache", ["p * BLOCK", "h * HEAD", "t % 16 * TOKEN", "8"]),
        ("bhsd_vt", "v_cache", ["p * BLOCK", "h * HEAD", "DIM * 8", "t % 16"]),
        ("vllm", "k_cache", ["p * BLOCK", "h * HEAD", "DIM", "t % 16 * TOKEN"]),
    ],
)
def test_texts_are_simplified(attention, layout, tensor, terms):
    made = Indexer(attention(layout=layout)).index(tensor, block="p", head="h", token="t % 16", dim=8)
    stride = re.compile("[A-Z]+")
    assert made == stride.sub(lambda m: f"a.{tensor}_stride_{m[0].lower()}", " + ".join(terms))


def test_what_divides_the_split_away_leaves_no_remainder(attention):
    made = Indexer(attention(layout="vllm")).index("k_cache", dim="8 * i")
    assert made == "i * a.k_cache_stride_dim"


def test_axes_left_out_count_nothing(attention):
    indexer = Indexer(attention())
    assert indexer.index("q") == "0"
    assert indexer.index("q", seq="s") == "s * a.q_stride_seq"
    assert indexer.index("q", seq="s", head="(h + r)", dim="d") == (
        "s * a.q_stride_seq + (h + r) * a.q_stride_head + d"
    )
    assert indexer.index("seq_lens", seq="s") == "s"


def test_a_place_may_name_words_of_the_block(attention):
    made = Indexer(attention()).index("q", seq="a.num_seqs - 1")
    assert made == "(a.num_seqs - 1) * a.q_stride_seq"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_extent_is_one_past_the_last_element(attention, layout):
    variant = attention(layout=layout)
    sizes = Sizes(5, 3, 16, 128, 2)
    for argument, tensor in (("k_cache", "k"), ("v_cache", "v")):
        order = variant.op.layouts[layout].order(tensor)
        block = block_for(argument, order, sizes)
        block.num_blocks, block.num_kv_heads = 5, 3
        assert value_of(Indexer(variant).extent(argument), a=block) == 5 * 3 * 16 * 128


def test_extent_of_a_tensor(attention):
    block = SimpleNamespace(num_seqs=4, num_heads=6, q_stride_seq=1000, q_stride_head=128)
    assert value_of(Indexer(attention()).extent("q"), a=block) == 3 * 1000 + 5 * 128 + 128


@pytest.mark.parametrize(
    ("tensor", "places", "message"),
    [
        ("k_cach", {}, "has no tensor 'k_cach'"),
        ("softmax_scale", {}, "has no tensor 'softmax_scale'"),
        ("q", {"seqs": 1}, "q has no axis 'seqs'"),
        ("k_cache", {"token": "t +"}, "'t +': the expression ends too early"),
        ("k_cache", {"token": "x->y"}, "'x->y': "),
    ],
)
def test_faults_of_a_template_author(attention, tensor, places, message):
    with pytest.raises(KgenError, match=re.escape(message)):
        Indexer(attention()).index(tensor, **places)
