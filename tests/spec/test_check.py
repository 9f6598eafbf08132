"""Types of expressions: what they are, what is folded, and one fault for one mistake."""

import pytest

from kgen.diagnostics import Collector
from kgen.spec.check import check_expr
from kgen.spec.scope import Checked, Symbol
from kgen.spec.types import BAD, BOOL, FLOAT, INT, Type
from kgen.syntax.parser import parse_expr

DTYPE = Type("dtype", ("f32", "bf16"))
SCOPE = {
    "n": Symbol(INT, "parameter"),
    "x": Symbol(FLOAT, "parameter"),
    "on": Symbol(BOOL, "parameter"),
    "dtype": Symbol(DTYPE, "parameter"),
    "kv_dtype": Symbol(DTYPE, "parameter"),
    "mode": Symbol(Type("enum", ("fast", "exact")), "parameter"),
    "target": Symbol(Type("target"), "target"),
    "layout": Symbol(Type("layout", ("bshd",)), "parameter"),
    "slope": Symbol(Type("array", None, FLOAT, "head"), "argument"),
    "head": Symbol(INT, "position"),
    "four": Symbol(INT, "derived value", 4),
    "zero": Symbol(INT, "derived value", 0),
    "wrong": Symbol(BAD, "derived value"),
}


def check(text: str, wanted: Type | None = None) -> tuple[Checked, list[str]]:
    found = Collector()
    checked = check_expr(parse_expr(text), SCOPE, found, wanted)
    return checked, [d.code for d in found.diagnostics]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("n + 1", "int"), ("n + x", "float"), ("n / 2", "float"), ("n // 2 % 3", "int"), ("-x", "float"),
        ("n < x", "bool"), ("1 < n < 3", "bool"), ("not on", "bool"), ("on implies n > 1", "bool"),
        ("n in [1, 2]", "bool"), ("dtype == kv_dtype", "bool"), ("dtype in ['f32']", "bool"),
        ("min(n, 2)", "int"), ("max(n, x, 1)", "float"), ("abs(x)", "float"), ("sizeof(dtype)", "int"),
        ("log2(n)", "float"), ("ceil(x)", "int"), ("1 if on else 2.0", "float"),
        ("dtype if on else 'f32'", "dtype"),
        ("'a' if on else 'b'", "text"), ("target.wave * n", "int"), ("target.family == 'cpu'", "bool"),
        ("layout.k_known", "bool"), ("layout.v_inner == 'token'", "bool"), ("slope[head] * 2", "float"),
        ("target.name == 'chip'", "bool"), ("on == (n > 1)", "bool"),
    ],
)  # fmt: skip
def test_types(text: str, kind: str):
    checked, faults = check(text)
    assert (checked.type.kind, faults) == (kind, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 * four + 1", 9), ("four > 3", True), ("1 / 2 + four", 4.5), ("sizeof('bf16')", 2), ("n + 1", None),
     ("zero != 0 and 1 // zero > 0", False), ("1 // zero if zero != 0 else 7", 7), ("on and zero == 1", None),
     ("'f32' in ['f32', 'bf16']", True), ("zero == 1 implies 1 // zero == 1", True), ("max(four, 5, 1)", 5)],
)  # fmt: skip
def test_constants_are_folded(text: str, value: object):
    checked, faults = check(text)
    assert (checked.value, faults) == (value, [])


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("n + on", ["K208"]), ("n and on", ["K208"]), ("dtype + 1", ["K208"]), ("dtype == mode", ["K208"]),
        ("n == 'f32'", ["K208"]), ("on == 1", ["K208"]), ("x // 2", ["K208"]), ("n if n else 1", ["K208"]),
        ("1 if on else 'a'", ["K208"]), ("slope[n]", ["K208"]), ("slope[0]", ["K208"]),
        ("slope + 1", ["K208"]),
        ("n[0]", ["K208"]), ("sizeof(n)", ["K208"]), ("sizeof(mode)", ["K208"]),
        ("dtype == 'f16'", ["K204"]), ("mode in ['fast', 'slow']", ["K204"]), ("sizeof('f8')", ["K204"]),
        ("target.family == 'gpu'", ["K204"]), ("layout.k_inner != 'head'", ["K204"]),
        ("m + 1", ["K205"]), ("target.waves", ["K205"]), ("layout.inner", ["K205"]), ("n.size", ["K205"]),
        ("tan(x)", ["K206"]), ("min(n)", ["K207"]), ("sizeof()", ["K207"]), ("abs(n, n)", ["K207"]),
        ("n // 0", ["K209"]), ("n % zero", ["K209"]), ("x / (four - 4)", ["K209"]),
        ("align(n, zero)", ["K209"]),
        ("on and n // zero > 1", ["K209"]), ("log2(zero)", ["K211"]),
        ("four * 9223372036854775807", ["K210"]),
        ("m + tan(x) * (n + on)", ["K205", "K206", "K208"]),
        ("wrong + 1", []), ("wrong and wrong.field > slope[wrong]", []), ("m + m", ["K205", "K205"]),
    ],
)  # fmt: skip
def test_every_fault_is_told_once(text: str, codes: list[str]):
    checked, faults = check(text)
    assert faults == codes
    assert checked.type == BAD


def test_what_is_expected_is_checked():
    assert check("n", FLOAT)[1] == []
    assert check("four", FLOAT)[0] == Checked(FLOAT, 4.0)
    assert check("x", INT)[1] == ["K208"]
    assert check("n", BOOL)[1] == ["K208"]
    assert check("'f32'", DTYPE)[1] == []
    assert check("'f16'", DTYPE)[1] == ["K204"]
    assert check("mode", DTYPE)[1] == ["K208"]
    assert check("wrong", BOOL)[1] == []


def test_carets_stand_at_the_token():
    found = Collector()
    text = "n > 1 and sizeof(dtyp) + target.waves < nn // zero"
    check_expr(parse_expr(text), SCOPE, found)
    places = {d.message: text[d.span.col - 1 : d.span.end_col - 1] for d in found.diagnostics if d.span}
    assert places == {
        "unknown name 'dtyp'": "dtyp",
        "a target has no field 'waves'": "waves",
        "unknown name 'nn'": "nn",
        "division by zero": "zero",
    }
