"""What is said of a build that cannot be expanded: where, what was expected, the nearest choice."""

import pytest

from kgen.diagnostics import KgenError
from kgen.variants import axes
from kgen.variants.matrix import expand, make_variant
from tests.variants.hand_built import build_of, entry

ATTENTION = {
    "arch": ["cpu_avx2"],
    "dtype": ["f32"],
    "head_dim": [64],
    "block_size": [16],
    "layout": ["bshd"],
    "reuse_kv_times": [1],
}


def faults(catalog, *entries, native="cpu_avx2"):
    with pytest.raises(KgenError) as caught:
        expand(build_of(*entries), catalog, native)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("axis", "value", "message", "hint"),
    [
        ("dtype", "bf61", "'bf61' is no dtype of paged_attention", "did you mean 'bf16'?"),
        ("dtype", 16, "16 is no dtype of paged_attention", "choices: f32, f16, bf16"),
        ("layout", "bsdh", "'bsdh' is no layout of paged_attention", "did you mean 'bshd'?"),
        ("arch", "gfx924", "'gfx924' is no arch of paged_attention", "did you mean 'gfx942'?"),
        ("arch", "sim:cpu_avx2", "'sim:cpu_avx2' is no arch", "did you mean"),
        ("block_size", 48, "48 is no block_size of paged_attention", "the nearest is 32"),
        ("block_size", "big", "block_size of paged_attention is an int; 'big' is not", None),
        ("block_size", True, "block_size of paged_attention is an int; true is not", None),
        ("head_dim", 0, "head_dim of paged_attention must be at least 8 and at most 512", "the nearest is 8"),
        (
            "head_dim",
            999,
            "head_dim of paged_attention must be at least 8 and at most 512",
            "the nearest is 512",
        ),
        ("head_dim", 64.0, "head_dim of paged_attention is an int; 64.0 is not", None),
    ],
)
def test_a_value_the_parameter_does_not_have(catalog, axis, value, message, hint):
    (fault,) = faults(catalog, entry("paged_attention", **{**ATTENTION, axis: [value]}))
    assert fault.code == "K304" and message in fault.message
    assert fault.span is not None
    assert fault.hint is None if hint is None else hint in fault.hint


def test_names_that_do_not_exist(catalog):
    op, param = faults(catalog, entry("paged_atention"), entry("copy_blocks", arch=["native"], head_dm=[1]))
    assert op.message == "there is no operator 'paged_atention'" and "'paged_attention'" in op.hint
    assert param.message == "copy_blocks has no parameter 'head_dm'"


def test_parameters_that_nothing_gives_a_value_are_all_listed(catalog):
    given = {name: values for name, values in ATTENTION.items() if name not in ("layout", "dtype")}
    found = faults(catalog, entry("paged_attention", **given))
    assert [f.message for f in found] == [
        "nothing gives dtype of paged_attention a value",
        "nothing gives layout of paged_attention a value",
    ]
    assert all(f.code == "K305" and "give it a default" in f.hint for f in found)


def test_faults_of_all_entries_come_together(catalog):
    found = faults(
        catalog,
        entry("paged_attention", **{**ATTENTION, "dtype": ["f61"], "head_dim": [7, 64, 999]}),
        entry("copy_blocks", arch=["cpu"]),
    )
    assert [f.code for f in found] == ["K304"] * 4


def test_an_empty_axis(catalog):
    (fault,) = faults(catalog, entry("copy_blocks", arch=[]))
    assert "the axis arch has no values" in fault.message


def test_native_and_the_target_it_stands_for_are_one_value(catalog):
    (fault,) = faults(catalog, entry("copy_blocks", arch=["cpu_avx2", "native"]))
    assert fault.code == "K308"
    assert "'native' and 'cpu_avx2' are the same target here" in fault.message
    both = build_of(entry("copy_blocks", arch=["cpu_avx2", "native"]))
    assert expand(both, catalog, "cpu_generic").product == 2


def test_two_entries_that_name_one_variant(catalog):
    (fault,) = faults(
        catalog,
        entry("merge_states", arch=["cpu_avx2"], dtype=["f32"], head_dim=[64, 128]),
        entry("merge_states", arch=["native"], dtype=["f32", "f16"], head_dim=[128]),
    )
    assert fault.code == "K308"
    assert fault.message == "merge_states_cpu_avx2_f32_d128 is already in this build"
    assert "the entry at build.yaml:1:1 has it too" in fault.hint


def test_a_native_that_is_no_target(catalog):
    (fault,) = faults(catalog, entry("copy_blocks", arch=["cpu_avx2"]), native="cpu_axv2")
    assert fault.code == "K302" and "did you mean 'cpu_avx2'?" in fault.hint


def test_tags_that_do_not_tell_values_apart(with_op):
    catalog = with_op(
        """
        op: blurred
        doc: two sizes, one name
        templates: {cpu: cpu/copy_blocks.cpp.j2}
        params:
          arch: {type: target, tag: "{}"}
          size: {type: int, values: [1, 2], tag: "s{}", omit: size < 3}
        arguments: {x: {dtype: f32, axes: {row: rows}}}
        """
    )
    (fault,) = faults(catalog, entry("blurred", arch=["cpu_avx2"], size=[1, 2]))
    assert fault.message == "two combinations of this entry are named blurred_cpu_avx2"


def test_an_entry_of_which_nothing_is_left_names_the_rule_that_took_most(catalog):
    axes = {**ATTENTION, "head_dim": [20, 36, 64], "kv_dtype": ["bf16"]}
    (fault,) = faults(catalog, entry("paged_attention", **axes))
    assert fault.code == "K309"
    assert (
        fault.message == "nothing is left of this entry: all 3 combinations of paged_attention are rejected"
    )
    assert fault.hint.startswith("'kv_dtype == dtype or fp8' rejects 1 of them") or "rejects" in fault.hint
    assert any("specs/ops/paged_attention.yaml:" in note for note in fault.notes)


def test_the_rule_that_rejects_most_is_the_one_named(catalog):
    (fault,) = faults(catalog, entry("paged_attention", **{**ATTENTION, "head_dim": [36, 44, 24]}))
    assert fault.hint == (
        "'head_dim % 8 == 0' rejects 2 of them: a row of head_dim elements is read 8 elements at a time"
    )


def test_a_product_past_the_limit_is_refused_before_it_is_expanded(catalog):
    many = {**ATTENTION, "head_dim": list(range(8, 513)), "partition_size": list(range(65536))}
    (fault,) = faults(catalog, entry("paged_attention", **many))
    assert fault.code == "K307"
    assert f"multiply to 33,095,680 combinations; at most {axes.MAX_PRODUCT:,}" in fault.message


def test_arithmetic_of_the_spec_that_fails_is_told_once(with_op):
    catalog = with_op(
        """
        op: divides
        doc: divides by a parameter
        templates: {cpu: cpu/copy_blocks.cpp.j2}
        params:
          arch: {type: target, tag: "{}"}
          size: {type: int, min: 0, max: 9, tag: "s{}"}
          by: {type: int, min: 0, max: 9, tag: "b{}"}
        let: {part: size // by}
        arguments: {x: {dtype: f32, axes: {row: rows}}}
        """
    )
    (fault,) = faults(catalog, entry("divides", arch=["cpu_avx2"], size=[1, 2, 3], by=[0, 1]))
    assert fault.message == "division by zero"
    assert fault.span.source.line(fault.span.line).strip() == "let: {part: size // by}"
    assert fault.notes == ("for arch = cpu_avx2, size = 1, by = 0",)


def test_make_variant_checks_names_values_and_what_is_missing(catalog):
    op = catalog.ops["merge_states"]
    with pytest.raises(KgenError) as caught:
        make_variant(op, {"arch": "native", "dtyp": "f32", "head_dim": 4}, catalog)
    assert [d.code for d in caught.value.diagnostics] == ["K304", "K303", "K304"]
    with pytest.raises(KgenError, match="nothing gives head_dim of merge_states a value"):
        make_variant(op, {"arch": "cpu_avx2", "dtype": "f32"}, catalog)


def test_an_axis_value_is_pointed_at(catalog, build_text):
    build = build_text(
        """
        build: twice
        variants:
          - op: copy_blocks
            axes: {arch: [cpu_avx2, native]}
        """
    )
    with pytest.raises(KgenError) as caught:
        expand(build, catalog, "cpu_avx2")
    span = caught.value.diagnostics[0].span
    assert span.source.line(span.line)[span.col - 1 : span.end_col - 1] == "native"
