"""Rewrites: shorter, never another value, and never without end."""

import math

import pytest
from hypothesis import given, settings

from kgen.algebra.bounds import range_of
from kgen.algebra.simplify import simplify
from kgen.diagnostics import KgenError
from kgen.render.cpp import print_cpp
from kgen.semantics import MAX_DEPTH, evaluate
from kgen.syntax.ast import Binary, Call, Expr, Int, Name, to_code
from kgen.syntax.parser import parse_expr
from tests.render.expr_strategies import (
    BOUNDS,
    FLOATS,
    bool_exprs,
    environments,
    float_exprs,
    int_exprs,
    magnitude,
)

LAYOUT = {"block": (0, None), "token": (0, 15), "dim": (0, 127), "head": (0, None)}
SIMPLER = {
    "x * 1 + 0": "x",
    "0 + x - 0": "x",
    "x * 0 + y": "y",
    "0 - x": "-x",
    "x // 1 + x % 1": "x",
    "(x * 16) // 16": "x",
    "(x * 16 + 48) // 16": "x + 3",
    "(x * 16) % 16": "0",
    "(x * 32 + 5) % 16": "5",
    "1 + (2 + (3 + x))": "x + 6",
    "a - (b - c)": "a + c - b",
    "a + b - a": "b",
    "x * 8 + x * 8": "x * 16",
    "2 * x * 3 * y": "x * y * 6",
    "(a + b) * 2 * 3": "(a + b) * 6",
    "(x // 4) // 8": "kgen::expr::floor_div(x, 32)",
    "(x % 64) % 16": "kgen::expr::floor_mod(x, 16)",
    "x // 8 * 8 + x % 8": "x",
    "x // 8 * 64 + x % 8 * 8": "x * 8",
    "(block * 16 + token) // 16": "block",
    "(block * 16 + token) % 16": "token",
    "((block * 16 + token) * 128 + dim) // 128": "block * 16 + token",
    "dim // 8 * stride + dim % 8": "dim / 8 * stride + dim % 8",
    "token % 16": "token",
    "min(token, 15) + max(dim, 0)": "token + dim",
    "max(x, 1, 3, x)": "kgen::expr::max(x, 3)",
    "min(x, min(y, x))": "kgen::expr::min(x, y)",
    "token < 16 and block >= 0": "true",
    "token >= 16 or x > 0": "x > 0",
    "0 <= token < x": "token < x",
    "x < token <= 15": "x < token",
    "token > 15 > x": "false",
    "not (not (a > b))": "a > b",
    "not (a == b)": "a != b",
    "a > b implies false": "!(a > b)",
    "x if 1 < 2 else y": "x",
    "x if c else x": "x",
    "ceil_div(100, 8) * x": "x * 13",
    "sizeof('bf16') * x": "x * 2",
    "'bf16' in ['f32', 'bf16']": "true",
}


@pytest.mark.parametrize("text", SIMPLER)
def test_rewrites(text: str):
    assert print_cpp(simplify(parse_expr(text), LAYOUT), LAYOUT) == SIMPLER[text]


def test_what_has_no_value_stays_as_written():
    for text in ("1 // 0", "log2(0)", "9223372036854775807 + 1", "exp2(5000.0)", "x // 0"):
        assert simplify(parse_expr(text)) == parse_expr(text)


def test_floats_are_not_reordered():
    text = "x + 0.5 - x"
    assert print_cpp(simplify(parse_expr(text), floats=frozenset({"x"}))) == text
    assert print_cpp(simplify(parse_expr("y * 0"), floats=frozenset({"y"}))) == "y * 0"


@settings(max_examples=400, deadline=None)
@given(int_exprs() | bool_exprs() | float_exprs(), environments())
def test_the_value_stays(expr: Expr, names: dict[str, int | float]):
    try:
        value = evaluate(to_code(expr), names)
    except KgenError:
        return
    if magnitude(expr, names) >= 2**62:
        return
    result = evaluate(to_code(simplify(expr, BOUNDS, FLOATS)), names)
    assert type(result) is type(value)
    assert result == value or (result != result and value != value)


@settings(max_examples=200, deadline=None)
@given(int_exprs() | bool_exprs())
def test_simplifying_again_changes_nothing(expr: Expr):
    once = simplify(expr, BOUNDS, FLOATS)
    assert simplify(once, BOUNDS, FLOATS) == once


@settings(max_examples=300, deadline=None)
@given(int_exprs(), environments())
def test_every_value_lies_in_the_range_that_was_proved(expr: Expr, names: dict[str, int | float]):
    try:
        value = evaluate(to_code(expr), names)
    except KgenError:
        return
    low, high = range_of(expr, BOUNDS)
    assert low <= value <= high


def test_ranges():
    bounds = {"n": (1, 8), "t": (0, None), "a": (None, -1)}
    ranges = {
        "n * 4 - 1": (3, 31),
        "t // n": (0, math.inf),
        "a // 4": (-math.inf, -1),
        "a % 4": (0, 3),
        "ceil_div(t, 4)": (0, math.inf),
        "min(n, t)": (0, 8),
        "-n": (-8, -1),
        "n if t > 3 else 20": (1, 20),
        "abs(a)": (1, math.inf),
        "align(n, 16)": (1, 23),
        "unknown + 1": (-math.inf, math.inf),
    }
    assert {text: range_of(parse_expr(text), bounds) for text in ranges} == ranges


def _balanced(op: str, names: list[Expr]) -> Expr:
    if len(names) == 1:
        return names[0]
    middle = len(names) // 2
    return Binary(op, _balanced(op, names[:middle]), _balanced(op, names[middle:]))


@pytest.mark.parametrize("op", ["+", "*", "-"])
def test_long_sums_and_products_do_not_nest_without_end(op: str):
    expr = _balanced(op, [Name(f"v{i}") for i in range(1024)])
    result = simplify(Binary("//", expr, Int(3)))
    assert result.depth <= 2 * MAX_DEPTH
    assert print_cpp(result).count("v") >= 1024
    wide = Call("min", tuple(Name(f"v{i}") for i in range(1024)))
    assert simplify(Call("min", (wide, Name("w")))) == Call("min", (*wide.args, Name("w")))
