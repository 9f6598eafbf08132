"""8-bit floats in a call: which dtypes say what, the scales that belong to them, and refusals."""

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.dispatch.arguments import view
from kgen.dispatch.bind import bind
from kgen.dispatch.block import fill
from kgen.dispatch.flavours import check_flavour
from kgen.dispatch.intervals import Tracked
from kgen.dispatch.model import Bound, Call, View
from kgen.dispatch.scratch import Scratch
from kgen.dispatch.select import on_target
from kgen.dispatch.tracking import Tracker
from kgen.fp8 import FORMATS
from kgen.spec.load import load_catalog
from kgen.variants.policy import compile_policy

CATALOG = load_catalog()
POLICY = compile_policy(CATALOG.ops["paged_attention"], CATALOG.targets)
HEADS = 3


def call(k=torch.float8_e4m3fn, v=None, k_scale=(HEADS,), v_scale=(), **changes) -> Call:
    """A call of paged_attention; scales by their shapes, or as tensors."""
    shapes = {"q": (2, 6, 64), "out": (2, 6, 64)}
    tensors = {name: torch.empty(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}
    tensors["k_cache"] = torch.empty(5, 16, HEADS, 64, dtype=k)
    tensors["v_cache"] = torch.empty(5, 16, HEADS, 64, dtype=v or k)
    tensors["block_table"] = torch.empty(2, 4, dtype=torch.int32)
    tensors["seq_lens"] = torch.empty(2, dtype=torch.int32)
    scales = {"k_scale": k_scale, "v_scale": v_scale}
    tensors |= {name: torch.ones(s) if isinstance(s, tuple) else s for name, s in scales.items()}
    views = {
        name: None if tensor is None else view(tensor) for name, tensor in {**tensors, **changes}.items()
    }
    scalars = {"softmax_scale": 1.0, "max_seq_len": 64}
    return Call({"lse": None, **views}, scalars, {"layout": "bshd"})


def message(made: Call) -> str:
    """The one fault of a call, without the operator's name."""
    with pytest.raises(KgenError) as caught:
        bind(POLICY, made)
    (only,) = caught.value.diagnostics
    return f"{only.code} {only.message.removeprefix('paged_attention: ')}" + (
        f" ({only.hint})" if only.hint else ""
    )


@pytest.mark.parametrize("one", FORMATS.values(), ids=lambda one: one.torch)
def test_the_dtype_of_a_tensor_says_format_and_flavour(one):
    found = view(torch.empty(2, 3, dtype=getattr(torch, one.torch)))
    assert found == View((2, 3), (3, 1), one.dtype, "cpu", one.torch)
    bound = bind(POLICY, call(getattr(torch, one.torch)))
    assert bound.names["kv_dtype"] == one.dtype
    assert bound.fp8 == {"k_cache": one.torch, "v_cache": one.torch}


def test_other_tensors_have_no_flavour():
    assert view(torch.empty(2, dtype=torch.uint8)).fp8 == ""
    assert bind(POLICY, call(torch.bfloat16, k_scale=None, v_scale=None)).fp8 == {}


def test_one_scale_stands_for_all_heads_by_a_stride_of_0():
    every_second = torch.ones(2 * HEADS)[::2]
    shapes = {(): 0, (1,): 0, (HEADS,): 1}
    for shape, stride in shapes.items():
        bound = bind(POLICY, call(k_scale=shape, v_scale=every_second))
        assert bound.strides["k_scale"] == {"head": stride}
        assert bound.strides["v_scale"] == {"head": 2}
    facts = {
        **bound.names,
        **dict.fromkeys(("group", "passes", "max_num_partitions", "max_shares", "max_workers", "crowded"), 1),
    }
    words = fill(POLICY, bound, facts, Tracker(facts, {}), Scratch(Tracked(0), {}, {}), {})
    by_name = {word.name: figure.value for word, figure in zip(POLICY.words, words, strict=True)}
    assert (by_name["k_scale_stride_head"], by_name["v_scale_stride_head"]) == (1, 2)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"k_scale": None}, "K510 k_scale must be given: keys of 8 bits are multiples of a scale"),
        ({"v_scale": None}, "K510 v_scale must be given: values of 8 bits are multiples of"),
        ({"k": torch.bfloat16, "k_scale": None}, "K510 v_scale must not be given: values of 8 bits"),
        (
            {"k_scale": (2,)},
            "K512 k_scale axis head is 2, but num_kv_heads is 3 (from k_cache axis head) "
            "(one element stands for all)",
        ),
        ({"k_scale": (HEADS, 1)}, "K512 k_scale has shape [3, 1]; it must have the axes [head]"),
        ({"v_scale": torch.ones(3).double()}, "K511 v_scale is float64; it must be f32"),
        ({"v_scale": torch.ones(3).half()}, "K511 v_scale is f16; it must be f32"),
        (
            {"v": torch.float8_e4m3fnuz},
            "K511 the arguments hold 8-bit floats of two flavours: k_cache float8_e4m3fn (ocp), "
            "v_cache float8_e4m3fnuz (fnuz)",
        ),
        ({"v": torch.float8_e5m2}, "K511 v_cache is fp8_e5m2, but kv_dtype is fp8_e4m3"),
        (
            {"q": torch.empty(2, 6, 64, dtype=torch.float8_e4m3fn)},
            "K511 q is fp8_e4m3, which is no dtype (dtype is one of: f32, f16, bf16)",
        ),
    ],
)  # fmt: skip
def test_what_binding_refuses(changes, told):
    assert message(call(**changes)).startswith(told)


def test_bytes_are_refused_with_what_to_view_them_as():
    with pytest.raises(KgenError) as caught:
        bind(POLICY, call(torch.uint8))
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == ("K511", "paged_attention: k_cache is u8")
    assert "view them as one of torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz" in first.hint


def against(arch: str, bound: Bound) -> None:
    check_flavour(POLICY, bound, on_target(POLICY, bound.names, arch))


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        ("cpu_generic", torch.float8_e4m3fn),
        ("sm_90", torch.float8_e5m2),
        ("gfx90a", torch.float8_e4m3fn),
        ("sim:gfx936", torch.float8_e4m3fn),
        ("gfx942", torch.float8_e4m3fnuz),
        ("sim:gfx942", torch.float8_e5m2fnuz),
    ],
)
def test_targets_read_their_own_flavour_only(arch, dtype):
    against(arch, bind(POLICY, call(dtype)))
    here = next(one for one in FORMATS.values() if getattr(torch, one.torch) == dtype)
    (other,) = (one for one in FORMATS.values() if one.dtype == here.dtype and one is not here)
    with pytest.raises(KgenError) as caught:
        against(arch, bind(POLICY, call(getattr(torch, other.torch))))
    (fault,) = caught.value.diagnostics
    assert fault.code == "K511"
    assert fault.message == (
        f"paged_attention: k_cache and v_cache hold {other.flavour} floats ({other.torch}); "
        f"kernels of {arch} read {here.flavour} ones ({here.torch})"
    )
    assert f"allocate the cache as torch.{here.torch}" in fault.hint


def test_a_target_nothing_is_known_of_reads_no_8_bit_floats():
    with pytest.raises(KgenError, match="kernels of gfx000 read no 8-bit floats"):
        against("gfx000", bind(POLICY, call()))
    against("gfx000", bind(POLICY, call(torch.bfloat16, k_scale=None, v_scale=None)))
