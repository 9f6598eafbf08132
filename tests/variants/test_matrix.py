"""The matrix: everything is accounted for, named apart, and the same however it is asked for."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgen.diagnostics import KgenError
from kgen.variants.matrix import expand, make_variant
from tests.variants.hand_built import build_of, entry

TOY = """
op: toy
doc: a small operator
templates: {cpu: cpu/copy_blocks.cpp.j2}
params:
  arch: {type: target, tag: "{}"}
  size: {type: int, min: 1, max: 64, tag: "s{}"}
  half: {type: int, min: 1, max: 16, default: size // 2, tag: "h{}", omit: half == size // 2}
  twice: {type: int, default: 2 * half, tag: "t{}", omit: twice == 2 * half}
  fast: {type: bool, default: "true", tag: "fast_{}", omit: fast}
let:
  wide: size * 8
  ratio: wide // twice
require:
  - {check: size % 2 == 0, because: size is even}
  - {check: wide <= target.vector_bits, because: a row fits a vector}
arguments:
  x: {dtype: f32, axes: {row: rows, dim: size}}
"""


def toy(**axes):
    return entry("toy", arch=["cpu_avx2"], **axes)


@pytest.mark.parametrize(("name", "size"), [("host", 218), ("smollm2", 44), ("golden", 17)])
def test_shipped_builds_are_accepted_whole(catalog, shipped, name, size):
    matrix = expand(shipped(name), catalog, "cpu_avx2")
    assert (len(matrix.accepted), len(matrix.rejected), matrix.product) == (size, 0, size)


def test_wide_build_rejects_by_rule(catalog, shipped):
    matrix = expand(shipped("wide"), catalog, "cpu_avx512")
    assert len(matrix.accepted) + len(matrix.rejected) == matrix.product == 552
    assert all(v.params.get("layout") != "dcu_layout2" for v in matrix.accepted)
    unknown = [r for r in matrix.rejected if r.params["layout"] == "dcu_layout2"]
    assert len(unknown) == 3 * 6 * 3
    whole = [r for r in unknown if r.params["partition_size"] == 0]
    assert {r.rule for r in whole} == {"layout.k_known and layout.v_known"}
    assert whole[0].figures == {"layout.k_known": True, "layout.v_known": False}


def test_every_name_follows_the_tags_in_spec_order(catalog):
    given = {
        "arch": "gfx942",
        "dtype": "f16",
        "head_dim": 128,
        "block_size": 64,
        "layout": "bhsd",
        "reuse_kv_times": 8,
        "partition_size": 512,
    }
    variant = make_variant(catalog.ops["paged_attention"], given, catalog)
    assert variant.name == "paged_attention_gfx942_f16_d128_b64_bhsd_r8_p512"
    assert variant.target.name == "gfx942" and not variant.simulated
    assert variant.params == {**given, "kv_dtype": "f16", "variant": "causal"}
    assert list(variant.params) == [p.name for p in variant.op.params]


def test_sim_targets_are_simulated_and_say_so(catalog):
    variant = make_variant(catalog.ops["copy_blocks"], {"arch": "sim:gfx942"}, catalog)
    assert variant.name == "copy_blocks_sim_gfx942"
    assert variant.simulated and variant.target.name == "gfx942"
    assert variant.params == {"arch": "sim:gfx942"}


def test_native_is_an_input(catalog):
    build = build_of(entry("copy_blocks", arch=["native"]))
    names = [
        expand(build, catalog, native).accepted[0].name
        for native in ("cpu_generic", "cpu_avx2", "sim:gfx942")
    ]
    assert names == ["copy_blocks_cpu_generic", "copy_blocks_cpu_avx2", "copy_blocks_sim_gfx942"]


def test_a_rejection_carries_rule_reason_place_and_figures(with_op):
    catalog = with_op(TOY)
    (rejected,) = expand(build_of(toy(size=[8, 33])), catalog, "cpu_avx2").rejected
    assert rejected.name == "toy_cpu_avx2_s33"
    assert rejected.rule == "size % 2 == 0"
    assert rejected.because == "size is even"
    assert rejected.figures == {"size": 33}
    assert rejected.where.source.line(rejected.where.line).strip().startswith("- {check: size % 2 == 0")
    assert rejected.params == {"arch": "cpu_avx2", "size": 33, "half": 16, "twice": 32, "fast": True}


def test_figures_hold_derived_values_and_fields(with_op):
    catalog = with_op(TOY)
    (rejected,) = expand(build_of(toy(size=[8, 64], half=[4])), catalog, "cpu_avx2").rejected
    assert rejected.figures == {"wide": 512, "target.vector_bits": 256}


def test_defaults_build_on_other_parameters(with_op):
    catalog = with_op(TOY)
    by_default, given = expand(build_of(toy(size=[8], half=[4, 2])), catalog, "cpu_avx2").accepted[::-1]
    assert by_default.params["twice"] == 8 and by_default.name == "toy_cpu_avx2_s8"
    assert given.params["twice"] == 4 and given.name == "toy_cpu_avx2_s8_h2"
    assert by_default.lets == {"wide": 64, "ratio": 8}


def test_a_default_that_is_no_legal_value_rejects(with_op):
    catalog = with_op(TOY)
    (rejected,) = expand(build_of(toy(size=[8, 1])), catalog, "cpu_avx2").rejected
    assert rejected.rule == "half: size // 2"
    assert rejected.because == "half of toy must be at least 1 and at most 16; this is 0"
    assert rejected.figures == {"half": 0}


def test_a_target_without_a_template_is_rejected(with_op):
    catalog = with_op(TOY)
    build = build_of(entry("toy", arch=["cpu_avx2", "gfx942"], size=[8]))
    (rejected,) = expand(build, catalog, "cpu_avx2").rejected
    assert rejected.because == "toy has no template for gpu targets"


def test_a_rule_refuses_before_arithmetic_that_makes_no_sense(with_op):
    text = TOY.replace("size % 2 == 0", "twice > 2").replace("size is even", "no division by zero")
    catalog = with_op(text.replace("wide // twice", "wide // (twice - 2)"))
    matrix = expand(build_of(toy(size=[8], half=[1, 2])), catalog, "cpu_avx2")
    assert [r.rule for r in matrix.rejected] == ["twice > 2"]
    assert [v.lets["ratio"] for v in matrix.accepted] == [32]


def test_order_of_axes_values_and_entries_does_not_matter(catalog):
    axes = {
        "arch": ["cpu_avx2", "cpu_generic"],
        "dtype": ["f32", "bf16"],
        "head_dim": [64, 100, 128],
        "block_size": [16, 64],
        "layout": ["bshd", "vllm"],
        "reuse_kv_times": [1, 12, 8],
        "partition_size": [0, 512],
    }
    pages = entry("copy_blocks", arch=["native"])
    one = expand(build_of(entry("paged_attention", **axes), pages), catalog, "cpu_avx2")
    turned = {name: values[::-1] for name, values in reversed(axes.items())}
    two = expand(build_of(pages, entry("paged_attention", **turned)), catalog, "cpu_avx2")
    assert one == two
    assert [v.params["reuse_kv_times"] for v in one.accepted[1:4]] == [1, 1, 8]


SAMPLES = {
    "arch": ["native", "cpu_generic", "gfx942", "sim:gfx942", "sm_90"],
    "dtype": ["f32", "f16", "bf16"],
    "kv_dtype": ["f32", "bf16"],
    "head_dim": [8, 32, 64, 100, 256, 264],
    "block_size": [1, 16, 64],
    "layout": ["bshd", "bhsd", "bhsd_vt", "vllm", "dcu_layout2"],
    "reuse_kv_times": [1, 7, 8, 128],
    "partition_size": [0, 48, 64, 512],
}


@st.composite
def axes(draw):
    names = draw(st.permutations(list(SAMPLES)))
    chosen = {}
    for name in names:
        values = st.lists(st.sampled_from(SAMPLES[name]), min_size=1, max_size=2, unique=True)
        if name not in ("kv_dtype", "partition_size") or draw(st.booleans()):
            chosen[name] = draw(values)
    return chosen


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(axes(), st.randoms(use_true_random=False))
def test_any_build_accounts_for_its_whole_product(catalog, chosen, random):
    build = build_of(entry("paged_attention", **chosen))
    product = 1
    for values in chosen.values():
        product *= len(values)
    try:
        matrix = expand(build, catalog, "cpu_avx2")
    except KgenError as error:
        assert [d.code for d in error.diagnostics] == ["K309"]
        return
    assert len(matrix.accepted) + len(matrix.rejected) == matrix.product == product
    names = [cell.name for cell in (*matrix.accepted, *matrix.rejected)]
    assert len(set(names)) == product
    shuffled = list(chosen.items())
    random.shuffle(shuffled)
    for _, values in shuffled:
        random.shuffle(values)
    assert expand(build_of(entry("paged_attention", **dict(shuffled))), catalog, "cpu_avx2") == matrix
    for variant in matrix.accepted:
        assert make_variant(variant.op, variant.params, catalog) == variant
    for rejected in matrix.rejected:
        assert make_variant(catalog.ops["paged_attention"], rejected.params, catalog) == rejected
