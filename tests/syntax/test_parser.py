"""Text to tree: binding, spans, and refusals that point at the token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.diagnostics import Diagnostic, KgenError, Source, Span
from kgen.semantics import MAX_DEPTH
from kgen.syntax import parser
from kgen.syntax.ast import (
    Attr,
    Binary,
    Bool,
    Call,
    Compare,
    Expr,
    Float,
    If,
    In,
    Index,
    Int,
    Name,
    Str,
    Unary,
    literal,
    names_of,
    substitute,
    walk,
)  # fmt: skip
from kgen.syntax.parser import MAX_LENGTH, parse_expr

OPERATORS = ["+", "-", "*", "/", "//", "%", "and", "or", "implies"]
A, B, C = Name("a"), Name("b"), Name("c")

TREES = {
    "a + b * c": Binary("+", A, Binary("*", B, C)),
    "a - b - c": Binary("-", Binary("-", A, B), C),
    "a // b % c": Binary("%", Binary("//", A, B), C),
    "-a // b": Binary("//", Unary("neg", A), B),
    "a * -b": Binary("*", A, Unary("neg", B)),
    "not a == b": Unary("not", Compare(("==",), (A, B))),
    "not a and b": Binary("and", Unary("not", A), B),
    "a or b and c": Binary("or", A, Binary("and", B, C)),
    "a implies b implies c": Binary("implies", A, Binary("implies", B, C)),
    "a or b implies c": Binary("implies", Binary("or", A, B), C),
    "a if b else c": If(B, A, C),
    "a if b else b if c else a": If(B, A, If(C, B, A)),
    "a implies b if c else a": If(C, Binary("implies", A, B), A),
    "a < b <= c": Compare(("<", "<="), (A, B, C)),
    "a + 1 in [b, 2]": In(Binary("+", A, Int(1)), (B, Int(2))),
    "a not in [b]": Unary("not", In(A, (B,))),
    "min(a, b + 1)": Call("min", (A, Binary("+", B, Int(1)))),
    "a[b + 1]": Index(A, Binary("+", B, Int(1))),
    "a.wave * 2": Binary("*", Attr(A, "wave"), Int(2)),
    "(a + b) * c": Binary("*", Binary("+", A, B), C),
    "'causal' == \"x y\"": Compare(("==",), (Str("causal"), Str("x y"))),
    "1.5 + 2e3": Binary("+", Float(1.5), Float(2000.0)),
    "true and false": Binary("and", Bool(True), Bool(False)),
    "android or order": Binary("or", Name("android"), Name("order")),
    "a\n  + b": Binary("+", A, B),
}

TOO_MUCH = {
    "long": "1" * 100_000,
    "long sum": "1 + " * 50_000 + "1",
    "parentheses": "(" * 10_000 + "1" + ")" * 10_000,
    "brackets": "a[" * 1_500 + "0" + "]" * 1_500,
    "sum": "a+" * 1_000 + "a",
    "minus": "-" * 3_000 + "a",
    "not": "not " * 1_000 + "a",
    "if": "a if b else " * 300 + "c",
    "calls": "abs(" * 800 + "1" + ")" * 800,
    "implies": "a implies " * 400 + "a",
    "unclosed": "(" * 4_000,
}


def span_of(text: str) -> Span:
    source = Source("s.yaml", text)
    return Span(source, 1, 1, 1, len(text) + 1)


def fault(text: str) -> Diagnostic:
    with pytest.raises(KgenError) as caught:
        parse_expr(text)
    assert len(caught.value.diagnostics) == 1
    return caught.value.diagnostics[0]


@pytest.mark.parametrize("text", TREES)
def test_binding(text: str):
    assert parse_expr(text) == TREES[text]


def marked(expr: Expr, text: str) -> str:
    return text[expr.span.col - 1 : expr.span.end_col - 1]


def test_spans_cover_their_text():
    text = "min(a + 1, target.wave) // (b if not c else slope[d])"
    expr = parse_expr(text, span_of(text))
    assert [marked(node, text) for node in walk(expr)] == [
        text, "min(a + 1, target.wave)", "a + 1", "a", "1", "target.wave",
        "(b if not c else slope[d])", "not c", "c", "b", "slope[d]", "slope", "d",
    ]  # fmt: skip


def test_spans_follow_the_text_into_its_file():
    source = Source("s.yaml", "check: >-\n    head_dim > 8 and\n    block > 1\n")
    span = Span(source, 1, 8, 3, 14)
    expr = parse_expr("head_dim > 8 and block > 1", span)
    block = next(node for node in walk(expr) if node == Name("block"))
    assert (block.span.line, block.span.col, block.span.end_col) == (3, 5, 10)


@pytest.mark.parametrize(
    ("raw", "text"),
    [("'a == ''x'''", "a == 'x'"), ('"a == \\"x\\""', 'a == "x"'), ("|\n  a == \n  'x'\n", "a == \n'x'\n")],
)
def test_spans_see_through_quotes(raw: str, text: str):
    source = Source("s.yaml", raw)
    lines = raw.splitlines()
    expr = parse_expr(text, Span(source, 1, 1, len(lines), len(lines[-1]) + 1))
    word = next(node for node in walk(expr) if isinstance(node, Str))
    assert source.line(word.span.line)[word.span.col - 1] in "'\"\\"
    assert "x" in source.line(word.span.line)[word.span.col - 1 : word.span.end_col]


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_large_is_refused(name: str):
    found = fault(TOO_MUCH[name])
    assert found.code == "K111"
    assert str(found).count("\n") < 5 and max(map(len, str(found).splitlines())) < 200


def test_the_limits_themselves_are_allowed():
    assert parse_expr("-" * (MAX_DEPTH - 1) + "a").depth == MAX_DEPTH
    assert parse_expr("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == A
    assert parse_expr("a" * MAX_LENGTH) == Name("a" * MAX_LENGTH)
    wide = "a in [" + ", ".join(["1"] * 1000) + "]"
    assert parse_expr(wide).depth == 2


@pytest.mark.parametrize("text", ["9223372036854775808", "99999999999999999999999", "1e400", "9" * 4000])
def test_numbers_out_of_range(text: str):
    assert fault(text).code == "K112"


@pytest.mark.parametrize(
    ("text", "col", "expected"),
    [
        ("a +", 4, "ends too early; expected a value"),
        ("a b", 3, "unexpected 'b'; expected an operator or the end of the expression"),
        ("(a", 3, "ends too early; expected ')'"),
        ("f(a", 4, "ends too early; expected ')' or ','"),
        ("a)", 2, "unexpected ')'; expected the end of the expression"),
        ("a.1", 3, "unexpected '1'; expected a name"),
        ("a in 3", 6, "unexpected '3'; expected '['"),
        ("a not 3", 7, "unexpected '3'; expected 'in'"),
        ("a if b", 7, "expected 'else'"),
        ("a $ b", 3, "unexpected character '$'"),
        ("", 1, "the expression is empty"),
    ],
)
def test_errors_say_what_was_expected(text: str, col: int, expected: str):
    found = fault(text)
    assert found.code == "K110"
    assert expected in found.message
    assert found.span is not None and found.span.col == col


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a && b", "write 'and'"),
        ("a || b", "write 'or'"),
        ("!a", "write 'not'"),
        ("a = b", "write '=='"),
        ("a ** 2", "exp2"),
        ("a OR b", "write 'or'"),
        ("a ? b : c", "a if condition else b"),
        ("'a", "not closed"),
    ],
)
def test_habits_of_other_languages_are_answered(text: str, hint: str):
    assert hint in (fault(text).hint or "")


def test_every_token_has_a_name_for_users():
    known = set(parser._USER_NAMES) | parser._OPERANDS | parser._OPERATORS | {"WS"}
    assert {terminal.name for terminal in parser._parser().terminals} == known - {"$END"}


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab1.,()[]'\"+-*/%<>=! \nnotifelsandr", max_size=60))
def test_any_text_parses_or_is_refused(text: str):
    try:
        assert parse_expr(text).depth <= MAX_DEPTH
    except KgenError as error:
        assert error.diagnostics[0].code in ("K110", "K111", "K112")
        str(error)


def spelled(expr: Expr) -> str:
    """The expression with every bracket written."""
    parts = [spelled(part) for part in expr.children()]
    match expr:
        case Unary():
            return f"({'not ' if expr.op == 'not' else '-'}{parts[0]})"
        case Binary():
            return f"({parts[0]} {expr.op} {parts[1]})"
        case Compare():
            chain = "".join(f" {op} {part}" for op, part in zip(expr.ops, parts[1:], strict=True))
            return f"({parts[0]}{chain})"
        case In():
            return f"({parts[0]} in [{', '.join(parts[1:])}])"
        case If():
            return f"({parts[1]} if {parts[0]} else {parts[2]})"
        case Call():
            return f"{expr.function}({', '.join(parts)})"
        case Str():
            return f"'{expr.value}'"
    return str(getattr(expr, "value", getattr(expr, "name", ""))).lower()


def trees() -> st.SearchStrategy[Expr]:
    leaves = st.integers(0, 99).map(Int) | st.sampled_from("abc").map(Name) | st.booleans().map(Bool)
    return st.recursive(
        leaves | st.just(Str("w")),
        lambda part: st.one_of(
            st.builds(Binary, st.sampled_from(OPERATORS), part, part),
            st.builds(Unary, st.sampled_from(["neg", "not"]), part),
            st.builds(Compare, st.just(("<", "==")), st.tuples(part, part, part)),
            st.builds(In, part, st.lists(part, min_size=1, max_size=3).map(tuple)),
            st.builds(If, part, part, part),
            st.builds(Call, st.just("max"), st.lists(part, max_size=3).map(tuple)),
        ),
        max_leaves=12,
    )


@settings(deadline=None)
@given(trees())
def test_a_tree_that_is_written_out_parses_to_itself(expr: Expr):
    assert parse_expr(spelled(expr)) == expr


def test_names_and_substitution():
    expr = parse_expr("a + target.wave * min(a, b)")
    assert names_of(expr) == {"a", "b", "target"}
    assert substitute(expr, {"target.wave": 64, "b": parse_expr("c + 1")}) == parse_expr(
        "a + 64 * min(a, c + 1)"
    )
    assert [type(literal(value)) for value in (True, 1, 1.0, "x")] == [Bool, Int, Float, Str]


def test_equality_ignores_where_a_tree_stands():
    assert parse_expr(" a+b ") == parse_expr("a + b")
    assert hash(parse_expr(" a+b ")) == hash(parse_expr("a + b"))
