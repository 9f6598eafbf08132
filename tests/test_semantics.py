"""What expressions mean: values, laziness, and a clean refusal of everything that has none."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.diagnostics import KgenError
from kgen.semantics import BINARY, FUNCTIONS, INT_MAX, INT_MIN, MAX_DEPTH, EvaluationError, evaluate
from kgen.spec.types import SIGNATURES
from kgen.syntax.ast import to_code
from kgen.syntax.parser import parse_expr

NAMES = {
    "a": -7, "b": 2, "zero": 0, "x": 0.5, "yes": True, "no": False, "dtype": "bf16",
    "layout.k_inner": "dim", "slope": [0.25, 0.5], "head": 1,
}  # fmt: skip

VALUES = {
    "1 + 2 * 3": 7,
    "a // b": -4,
    "a % b": 1,
    "a // -b": 3,
    "a % -b": -1,
    "7 / 2": 3.5,
    "6 / 2": 3.0,
    "-a": 7,
    "- -a": -7,
    "a + x": -6.5,
    "1 < 2 < 3": True,
    "1 < 3 < 2": False,
    "1 == 1.0": True,
    "dtype == 'bf16'": True,
    "dtype in ['f32', 'bf16']": True,
    "dtype not in ['f32', 'bf16']": False,
    "b in [1, 2]": True,
    "yes and not no": True,
    "no implies 1 // zero == 1": True,
    "yes implies no": False,
    "no and 1 // zero == 1": False,
    "yes or 1 // zero == 1": True,
    "1 > 2 > 1 // zero": False,
    "5 if yes else 1 // zero": 5,
    "1 // zero if no else 6": 6,
    "min(3, a, b)": -7,
    "max(3, x)": 3.0,
    "abs(a)": 7,
    "ceil_div(7, 2)": 4,
    "ceil_div(a, 2)": -3,
    "align(17, 16)": 32,
    "align(a, 4)": -4,
    "floor(-0.5)": -1,
    "ceil(-0.5)": 0,
    "float(3)": 3.0,
    "sqrt(2.25)": 1.5,
    "exp2(3)": 8.0,
    "exp2(5000)": math.inf,
    "log2(8)": 3.0,
    "log(exp(1.0))": 1.0,
    "tanh(0.0)": 0.0,
    "sizeof(dtype)": 2,
    "sizeof('f32') * 8": 32,
    "layout.k_inner == 'dim'": True,
    "slope[head]": 0.5,
    "9223372036854775807": INT_MAX,
    "-9223372036854775807 - 1": INT_MIN,
    "false or true": True,
}

FAULTS = {
    "1 // zero": "K209",
    "1 % zero": "K209",
    "1 / zero": "K209",
    "1 / 0.0": "K209",
    "ceil_div(1, zero)": "K209",
    "align(1, zero)": "K209",
    "9223372036854775807 + 1": "K210",
    "-9223372036854775807 - 2": "K210",
    "4611686018427387904 * 2": "K210",
    "-(-9223372036854775807 - 1)": "K210",
    "(-9223372036854775807 - 1) // -1": "K210",
    "abs(-9223372036854775807 - 1)": "K210",
    "align(9223372036854775807, 16)": "K210",
    "floor(1e300)": "K210",
    "log2(zero)": "K211",
    "log(-1.0)": "K211",
    "sqrt(-1)": "K211",
    "floor(exp2(5000))": "K211",
    "slope[2]": "K211",
    "slope[-1]": "K211",
    "missing": "K205",
    "layout.k_outer": "K205",
    "sizeof('f8')": "K204",
    "sizeof(a)": "K204",
    "yes + 1": "K208",
    "dtype < 'f32'": "K208",
    "dtype == 3": "K208",
    "yes == 1": "K208",
    "not a": "K208",
    "a and yes": "K208",
    "1 if a else 2": "K208",
    "x // 2": "K208",
    "slope[x]": "K208",
    "frobnicate(1)": "K206",
    "min()": "K503",
    "sizeof()": "K503",
    "abs(1, 2)": "K503",
    "a[0]": "K503",
}

MALFORMED = [
    [], ["int"], ["int", "3"], ["int", True], ["int", 2**63], ["float", "x"], ["bool", 1], ["nonsense", 1],
    ["+", ["int", 1]], ["if", ["bool", True]],
    ["compare", ["<"], [["int", 1]]], ["compare", ["!"], [["int", 1]] * 2],
    ["name"], ["name", ["list"]], ["call"], ["call", "min", 3], ["in", ["int", 1], 3], ["index", 1, 2],
    None, 7, "int", {"int": 3}, [["int", 3]], ["neg", None], [None, None],
]  # fmt: skip


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str):
    value = evaluate(to_code(parse_expr(text)), NAMES)
    assert value == VALUES[text]
    assert type(value) is type(VALUES[text])


@pytest.mark.parametrize("text", FAULTS)
def test_what_has_no_value_says_why(text: str):
    code = to_code(parse_expr(text))
    with pytest.raises(EvaluationError) as caught:
        evaluate(code, NAMES)
    assert caught.value.diagnostics[0].code == FAULTS[text]


@pytest.mark.parametrize("code", MALFORMED, ids=str)
def test_code_that_is_no_expression_is_refused(code: object):
    with pytest.raises(EvaluationError):
        evaluate(code, NAMES)  # type: ignore[arg-type]


def test_the_fault_names_the_very_part():
    code = to_code(parse_expr("1 + max(2, 3 // zero)"))
    with pytest.raises(EvaluationError) as caught:
        evaluate(code, NAMES)
    assert caught.value.code is code[2][3]


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(KgenError, match="did you mean 'dtype'"):
        evaluate(["name", "dytpe"], NAMES)


def test_code_survives_json():
    for text, value in VALUES.items():
        code = json.loads(json.dumps(to_code(parse_expr(text))))
        assert evaluate(code, NAMES) == value


@pytest.mark.parametrize("depth", [3 * MAX_DEPTH, 20_000])
def test_code_that_nests_too_deep_is_refused(depth: int):
    code: list[object] = ["int", 1]
    for _ in range(depth):
        code = ["neg", code]
    with pytest.raises(EvaluationError) as caught:
        evaluate(code, {})
    assert caught.value.diagnostics[0].code == "K111"


@given(st.integers(-(2**62), 2**62), st.integers(-(2**40), 2**40).filter(bool))
def test_division_floors_and_the_remainder_completes_it(a: int, b: int):
    quotient = evaluate(["//", ["int", a], ["int", b]], {})
    rest = evaluate(["%", ["int", a], ["int", b]], {})
    assert quotient * b + rest == a
    assert 0 <= rest < b or b < rest <= 0


@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX), st.sampled_from("+-*"))
def test_ints_are_64_bit_or_an_error(a: int, b: int, op: str):
    exact = {"+": a + b, "-": a - b, "*": a * b}[op]
    if INT_MIN <= exact <= INT_MAX:
        assert evaluate([op, ["int", a], ["int", b]], {}) == exact
    else:
        with pytest.raises(EvaluationError, match="K210"):
            evaluate([op, ["int", a], ["int", b]], {})


def test_every_function_has_a_signature_and_every_operator_a_meaning():
    assert set(FUNCTIONS) == set(SIGNATURES)
    assert set(BINARY) == {"+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">="}
