"""Why something is not generated, and what a build makes of some values."""

import pytest

from kgen.diagnostics import KgenError
from kgen.variants.explain import explain, why_rejected
from kgen.variants.matrix import expand

WHOLE = {
    "arch": "cpu_avx2",
    "dtype": "bf16",
    "head_dim": 20,
    "block_size": 64,
    "layout": "dcu_layout2",
    "reuse_kv_times": 4,
    "partition_size": 32,
}


def test_all_rules_a_whole_combination_breaks(catalog):
    found = why_rejected(catalog.ops["paged_attention"], {**WHOLE, "kv_dtype": "f16"}, catalog)
    assert [r.rule for r in found] == [
        "head_dim >= 32 and head_dim <= 256",
        "head_dim % 8 == 0",
        "kv_dtype == dtype or fp8",
        "split implies partition_size % block_size == 0",
        "layout.k_known and layout.v_known",
        "split implies partition_size >= 64",
    ]
    assert all(r.because and r.where is not None for r in found)


def test_nothing_is_broken_where_a_variant_exists(catalog):
    good = {**WHOLE, "head_dim": 64, "layout": "bshd", "partition_size": 512}
    assert why_rejected(catalog.ops["paged_attention"], good, catalog) == ()


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        ({"head_dim": 100}, ["head_dim % 8 == 0"]),
        ({"head_dim": 264}, ["head_dim >= 32 and head_dim <= 256"]),
        ({"partition_size": 32}, ["split implies partition_size >= 64"]),
        ({"layout": "dcu_layout2"}, ["layout.k_known and layout.v_known"]),
        ({"head_dim": 64}, []),
        ({}, []),
    ],
)
def test_some_values_break_a_rule_whatever_the_others_are(catalog, given, rules):
    found = why_rejected(catalog.ops["paged_attention"], given, catalog)
    assert [r.rule for r in found] == rules


def test_a_broken_rule_is_told_with_the_figures_that_are_known(with_op):
    catalog = with_op(
        """\
        op: x
        doc: d
        templates: {cpu: cpu/paged_attention.cpp.j2}
        params:
          arch: {type: target, tag: "{}"}
          head_dim: {type: int, min: 8, max: 512, tag: "d{}"}
          block_size: {type: int, min: 1, max: 64, tag: "b{}"}
        let: {half: head_dim // 2, page: half * block_size}
        require:
          - check: half >= 32 and page > 64 and target.wave > 1
            because: small pages are slow
        arguments: {n: {scalar: int}}
        """
    )
    (found,) = why_rejected(catalog.ops["x"], {"head_dim": 40}, catalog)
    assert (found.rule, found.figures) == ("half >= 32 and page > 64 and target.wave > 1", {"half": 20})


def test_cells_of_a_build_with_some_values(catalog, shipped):
    matrix = expand(shipped("wide"), catalog, "cpu_avx2")
    op = catalog.ops["paged_attention"]
    found = explain(matrix, op, {"block_size": 64, "partition_size": 32, "dtype": "f16"}, catalog)
    assert found.accepted == ()
    assert len(found.rejected) == 5
    assert found.absent == {}
    assert {r.rule for r in found.rejected} == {"split implies partition_size % block_size == 0"}
    assert [r.rule for r in found.rules] == [
        "split implies partition_size % block_size == 0",
        "split implies partition_size >= 64",
    ]


def test_a_value_the_build_does_not_have(catalog, shipped):
    matrix = expand(shipped("host"), catalog, "cpu_avx2")
    found = explain(matrix, catalog.ops["paged_attention"], {"head_dim": 96, "dtype": "f32"}, catalog)
    assert found.absent == {"head_dim": (64, 128)}
    assert (found.accepted, found.rejected, found.rules) == ((), (), ())


def test_names_and_values_are_checked(catalog, shipped):
    matrix = expand(shipped("host"), catalog, "cpu_avx2")
    with pytest.raises(KgenError) as caught:
        explain(matrix, catalog.ops["paged_attention"], {"headdim": 64, "dtype": "f61"}, catalog)
    assert [d.hint.partition("?")[0] for d in caught.value.diagnostics] == [
        "did you mean 'head_dim'",
        "did you mean 'f16'",
    ]
