"""Values of an operator's expressions: environments, derived values, faults with their place."""

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.evaluate import environment, evaluate_expr, inline
from kgen.syntax.ast import names_of, to_code
from kgen.syntax.parser import parse_expr
from tests.spec.spec_samples import catalog

PARAMS = {
    "arch": "chip90", "dtype": "bf16", "kv_dtype": "bf16", "head_dim": 96, "block_size": 16,
    "layout": "packed", "mode": "fast", "ordered": False, "scale": 1.0, "variant": "causal",
}  # fmt: skip


def test_the_environment_holds_fields_and_derived_values():
    op = catalog().op("decode")
    names = environment(op, PARAMS, catalog().target("chip90"))
    assert (names["target.wave"], names["arch.family"], names["target"]) == (32, "nvidia", "chip90")
    assert (names["layout.k_inner"], names["layout.v_inner"], names["layout.v_known"]) == (
        "inner",
        "token",
        True,
    )
    assert (names["line"], names["vector"], names["waves"]) == (128, 64, 2)
    assert [evaluate_expr(rule.check, names) for rule in op.requires] == [True, True]
    half = environment(op, {**PARAMS, "layout": "half"}, catalog().target("host_avx"))
    assert (half["layout.v_known"], half["layout.v_inner"], half["line"]) == (False, "unknown", 16)


def test_faults_carry_the_place_of_the_part():
    text = "head_dim + ceil_div(3, block_size - 16) * 2"
    with pytest.raises(KgenError) as caught:
        evaluate_expr(parse_expr(text), PARAMS)
    (fault,) = caught.value.diagnostics
    assert fault.code == "K209"
    assert fault.span is not None
    assert text[fault.span.col - 1 : fault.span.end_col - 1] == "ceil_div(3, block_size - 16)"


def test_inlining_leaves_only_parameters_and_fields():
    op = catalog().op("decode")
    expr = inline(parse_expr("waves * 2 + head_dim"), op.lets)
    assert names_of(expr) == {"head_dim", "dtype", "target"}
    names = environment(op, PARAMS, catalog().target("chip90"))
    without = {name: value for name, value in names.items() if name not in ("line", "vector", "waves")}
    assert evaluate_expr(expr, without) == evaluate_expr(parse_expr("waves * 2 + head_dim"), names) == 100
    assert "waves" not in str(to_code(expr))
