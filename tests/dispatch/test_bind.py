"""What the arguments of a call say, and every way they can disagree with the spec."""

from dataclasses import replace

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch.bind import bind, check_pending
from kgen.dispatch.model import Call, View
from kgen.dispatch.views import byte_view, overlaps
from kgen.manifest import ArgumentRule, AxisRule
from tests.dispatch.toy import POLICY


def tensor(*shape, dtype="f32", strides=None, device="cpu"):
    contiguous, step = [], 1
    for extent in reversed(shape):
        contiguous.insert(0, step)
        step *= extent
    return View(shape, tuple(strides or contiguous), dtype, device)


def call(keywords=(), scalars=(), **tensors):
    views = {
        "echo": tensor(38, dtype="i64"),
        "lse": None,
        "x": tensor(3, 8, 16),
        "k_cache": tensor(5, 16, 2, 16),
        "v_cache": tensor(5, 16, 2, 16),
        **tensors,
    }
    given = {"scale": 1.0, "limit": 7, "fail": 0, **dict(scalars)}
    return Call(views, given, {"layout": "bshd", **dict(keywords)})


def messages(**changes):
    with pytest.raises(KgenError) as caught:
        bind(POLICY, call(**changes))
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_facts_and_parameters_come_from_axes_and_dtypes():
    bound = bind(POLICY, call(keywords={"reuse": 4, "partition_size": None}))
    assert bound.names == {
        "layout": "bshd",
        "limit": 7,
        "fail": 0,
        "dtype": "f32",
        "kv_dtype": "f32",
        "num_words": 38,
        "num_rows": 3,
        "num_heads": 8,
        "head_dim": 16,
        "num_blocks": 5,
        "block_size": 16,
        "num_kv_heads": 2,
    }
    assert bound.requested == {"reuse": 4}
    assert bound.absent == {"lse"}
    assert bound.strides["k_cache"] == {"block": 512, "token": 32, "head": 16, "dim": 1}


def test_a_packed_cache_says_head_dim_and_block_size():
    packed = call(
        keywords={"layout": "packed"},
        k_cache=tensor(5, 2, 4, 16, 4),
        v_cache=tensor(5, 2, 16, 16),
    )
    assert bind(POLICY, packed).names["head_dim"] == 16
    half = call(
        keywords={"layout": "packed"},
        x=tensor(3, 8, 16, dtype="f16"),
        k_cache=tensor(5, 2, 2, 16, 8, dtype="f16"),
        v_cache=tensor(5, 2, 16, 16, dtype="f16"),
    )
    assert bind(POLICY, half).names["head_dim"] == 16


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"x": tensor(3, 8)}, "K512", "x has shape [3, 8]; it must have the axes [row, head, dim]"),
        (
            {"v_cache": tensor(5, 16, 2, 24)},
            "K512",
            "v_cache axis dim is 24, but head_dim is 16 (from x axis dim)",
        ),
        (
            {"v_cache": tensor(5, 32, 2, 16)},
            "K512",
            "v_cache axis token is 32, but block_size is 16 (from k_cache axis token)",
        ),
        (
            {"v_cache": tensor(6, 16, 2, 16)},
            "K512",
            "v_cache axis block is 6, but num_blocks is 5 (from k_cache axis block)",
        ),
        (
            {"v_cache": tensor(5, 16, 3, 16)},
            "K512",
            "v_cache axis head is 3, but num_kv_heads is 2 (from k_cache axis head)",
        ),
        ({"lse": tensor(4, 8)}, "K512", "lse axis row is 4, but num_rows is 3 (from x axis row)"),
        ({"lse": tensor(3, 8, dtype="f16")}, "K511", "lse is f16; it must be f32"),
        ({"echo": tensor(38, dtype="i32")}, "K511", "echo is i32; it must be i64"),
        (
            {"v_cache": tensor(5, 16, 2, 16, dtype="bf16")},
            "K511",
            "v_cache is bf16, but kv_dtype is f32 (from k_cache)",
        ),
        ({"x": tensor(3, 8, 16, dtype="float64")}, "K511", "x is float64, which is no dtype"),
        (
            {"x": tensor(3, 8, 16, strides=(256, 32, 2))},
            "K513",
            "x axis dim has stride 2; the last axis must be contiguous",
        ),
        (
            {"lse": tensor(3, 8, strides=(0, 1))},
            "K513",
            "lse is written, but its strides [0, 1] make elements overlap",
        ),
        (
            {"x": tensor(3, 8, 16, device="meta")},
            "K514",
            "the arguments are on different devices: x on meta, k_cache on cpu, v_cache on cpu, echo on cpu",
        ),
        ({"keywords": {"layout": "bhsd"}}, "K516", "no layout is named 'bhsd'"),
        ({"keywords": {"layout": "half"}}, "K516", "the v order of layout 'half' is not known"),
        ({"keywords": {"reuse": 3}}, "K516", "reuse=3, which is no reuse"),
        ({"keywords": {"reuse": "4"}}, "K516", "reuse='4', but reuse is an int"),
        ({"keywords": {"reuse": True}}, "K516", "reuse=True, but reuse is an int"),
        ({"keywords": {"tile": 3}}, "K516", "no parameter is named 'tile'"),
    ],
)
def test_a_fault_is_told_in_the_words_of_the_spec(changes, code, message):
    assert messages(**changes) == [(code, f"toy: {message}")]


def test_a_block_size_nothing_has_is_told_once():
    found = messages(k_cache=tensor(5, 20, 2, 16), v_cache=tensor(5, 20, 2, 16))
    assert found == [("K516", "toy: k_cache axis token is 20, which is no block_size")]


def test_a_packed_cache_of_the_wrong_width():
    found = messages(
        keywords={"layout": "packed"}, k_cache=tensor(5, 2, 2, 16, 8), v_cache=tensor(5, 2, 16, 16)
    )
    assert ("K512", "toy: k_cache axis inner is 8; it must be 4") in found


def test_all_faults_of_a_call_are_told_together():
    found = messages(lse=tensor(4, 8, dtype="f16"), echo=tensor(38, dtype="i32"), keywords={"tile": 1})
    assert sorted(code for code, _ in found) == ["K511", "K511", "K512", "K516"]


def test_guards_speak_before_facts_divide():
    found = messages(k_cache=tensor(5, 16, 0, 16), v_cache=tensor(5, 16, 0, 16))
    assert found == [
        ("K515", "toy: num_heads must be a multiple of num_kv_heads (num_heads = 8, num_kv_heads = 0)")
    ]
    assert messages(scalars={"limit": -1}) == [("K515", "toy: limit is a length (limit = -1)")]


def test_an_axis_of_a_derived_size_is_checked_when_the_size_is_known():
    parts = ArgumentRule("given", "tensor", "f32", (AxisRule("part", ["name", "num_parts"]),))
    policy = replace(POLICY, arguments=(*POLICY.arguments, parts))
    bound = bind(policy, call(given=tensor(3)))
    check_pending(policy, bound, {"num_parts": 3})
    with pytest.raises(KgenError, match="toy: given axis part is 3; it must be 4"):
        check_pending(policy, bound, {"num_parts": 4})


def test_hints_name_the_choices():
    with pytest.raises(KgenError) as caught:
        bind(POLICY, call(keywords={"layout": "bsh"}))
    assert caught.value.diagnostics[0].hint == "did you mean 'bshd'? (choices: bshd, half, packed)"
    with pytest.raises(KgenError) as caught:
        bind(POLICY, call(keywords={"layout": "half"}))
    assert caught.value.diagnostics[0].hint == "no source says so"


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (tensor(4, 8), False),
        (tensor(4, 8, strides=(16, 1)), False),
        (tensor(4, 8, strides=(8, 0)), True),
        (tensor(4, 8, strides=(7, 1)), True),
        (tensor(1, 8, strides=(0, 1)), False),
        (tensor(8, 4, strides=(1, 8)), False),
        (tensor(0, 8, strides=(0, 0)), False),
        (tensor(5, 2, 16, strides=(64, 32, 1)), False),
    ],
)
def test_overlaps(view, expected):
    assert overlaps(view) is expected


def test_pages_as_bytes():
    cache = View((9, 16, 2, 4), (256, 8, 4, 1), "bf16", "cpu")
    assert byte_view("cache", cache, 2) == View((9, 256), (512, 1), "u8", "cpu")
    assert byte_view("cache", View((9,), (1,), "f32", "cpu"), 4) == View((9, 4), (4, 1), "u8", "cpu")


@pytest.mark.parametrize(
    "view", [View((9, 16, 4), (64, 8, 2), "f32", "cpu"), View((9, 16, 4), (64, 1, 16), "f32", "cpu")]
)
def test_a_page_in_pieces_is_refused(view):
    with pytest.raises(KgenError, match="cache: every page must be contiguous, but its strides are"):
        byte_view("cache", view, 4)


def derived(lets, size, **changes):
    """A call bound where the words of `echo` are counted by an expression over derived values."""
    words = ArgumentRule("echo", "tensor", "i64", (AxisRule("word", size),), access="write")
    arguments = (words, *POLICY.arguments[1:])
    return bind(replace(POLICY, lets=lets, arguments=arguments), call(**changes))


LETS = (
    ("wide", [">=", ["name", "head_dim"], ["int", 16]]),
    ("words", ["if", ["name", "wide"], ["int", 38], ["int", 20]]),
    ("parts", ["//", ["name", "head_dim"], ["name", "partition_size"]]),
    ("none", ["//", ["name", "head_dim"], ["-", ["name", "block_size"], ["int", 16]]]),
    ("worse", ["+", ["name", "none"], ["int", 1]]),
)


def test_derived_values_are_known_as_far_as_their_names_are_and_have_a_value():
    bound = derived(LETS, ["name", "words"])
    assert {name: bound.names[name] for name, _ in LETS if name in bound.names} == {"wide": True, "words": 38}
    assert "words" not in bound.strides and bound.pending == ()


def test_a_size_made_of_derived_values_is_checked_once_they_are_known():
    with pytest.raises(KgenError) as caught:
        derived(LETS, ["+", ["name", "words"], ["int", 2]])
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("K512", "toy: echo axis word is 38; it must be 40")
    ]
    late = derived(LETS, ["name", "parts"])
    assert late.pending == (("echo axis word", ["name", "parts"], 38),)


def test_presence_is_decided_by_derived_values():
    rule = ArgumentRule(
        "lse", "tensor", "f32", (AxisRule("row", ["name", "num_rows"]),), when=["name", "wide"], because="b"
    )
    policy = replace(POLICY, lets=LETS[:1], arguments=(*POLICY.arguments[:1], rule, *POLICY.arguments[2:]))
    with pytest.raises(KgenError, match="lse must be given: b"):
        bind(policy, call())
    assert bind(policy, call(lse=tensor(3))).names["wide"] is True
