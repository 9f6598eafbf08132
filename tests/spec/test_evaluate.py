"""Values of an operator's expressions: environments, derived values, faults with their place."""

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.evaluate import Lets, environment, evaluate_expr, made_of, origins_of
from kgen.spec.model import Let
from kgen.syntax.ast import NOWHERE
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


def test_what_a_derived_value_is_made_of():
    op = catalog().op("decode")
    origins = origins_of(op.lets)
    assert origins["waves"] == {"head_dim", "dtype", "target"}
    assert made_of(parse_expr("waves * 2 + block_size"), origins) == {
        *("head_dim", "dtype", "target", "block_size"),
    }


LETS = "first: 8 // block_size; second: first + head_dim; third: second + first; bad: 1 // (block_size - 16)"


def lets(text):
    parts = (part.split(": ") for part in text.split("; "))
    return [Let(name, parse_expr(value), NOWHERE) for name, value in parts]


def test_a_derived_value_is_computed_once_when_it_is_first_asked_for(monkeypatch):
    computed = []
    compute = Lets._compute
    monkeypatch.setattr(Lets, "_compute", lambda self, name: computed.append(name) or compute(self, name))
    names = Lets({"block_size": 4, "head_dim": 96}, lets(LETS))
    assert (names["third"], names["second"], names["third"]) == (100, 98, 100)
    assert computed == ["first", "second", "third"]
    assert dict(names) == {
        "block_size": 4,
        "head_dim": 96,
        "first": 2,
        "second": 98,
        "third": 100,
        "bad": -1,
    }


def test_a_derived_value_without_a_value_is_a_fault_for_who_asks_for_it():
    names = Lets(
        {"block_size": 16, "head_dim": 96}, lets(LETS + "; worse: bad + first; held: 3 if first < 9 else bad")
    )
    assert (names["held"], names["first"]) == (3, 0)
    for name in ("bad", "worse", "worse"):
        with pytest.raises(KgenError) as caught:
            names[name]
        (fault,) = caught.value.diagnostics
        assert (fault.code, str(fault.span)[-3:]) == ("K209", "1:1")
