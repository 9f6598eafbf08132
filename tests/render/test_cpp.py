"""C++ text: its brackets, its division, and that it computes what the evaluator computes."""

import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kgen.algebra.simplify import simplify
from kgen.diagnostics import KgenError
from kgen.paths import include_dir
from kgen.render.cpp import print_cpp
from kgen.semantics import evaluate
from kgen.syntax.ast import Binary, Compare, Expr, In, Int, Name, literal, to_code
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

PRINTED = {
    "a + b * c": "a + b * c",
    "(a + b) * c": "(a + b) * c",
    "a - (b - c)": "a - (b - c)",
    "a - b - c": "a - b - c",
    "a * (b * c)": "a * (b * c)",
    "-(a + b)": "-(a + b)",
    "-(-a)": "-(-a)",
    "a - -5": "a - -5",
    "not (a < b)": "!(a < b)",
    "a < b == (c < d)": None,
    "(a < b) == (c < d)": "(a < b) == (c < d)",
    "0 <= q < n": "0 <= q && q < n",
    "x in [1, 2] and y": "(x == 1 || x == 2) && y",
    "x in [1] and y": "x == 1 && y",
    "a and b or c": "(a && b) || c",
    "a and (b or c)": "a && (b || c)",
    "a or (b or c)": "a || b || c",
    "a < 1 and b < 2 and c < 3": "a < 1 && b < 2 && c < 3",
    "a implies b": "!a || b",
    "not a implies b and c": "a || (b && c)",
    "a if c else b": "c ? a : b",
    "1 if c else 2": "c ? int64_t(1) : 2",
    "(a if c else b) + 1": "(c ? a : b) + 1",
    "a if b else c if d else e": "b ? a : d ? c : e",
    "(a if b else c) if d else e": "d ? (b ? a : c) : e",
    "a // b": "kgen::expr::floor_div(a, b)",
    "-a % 8": "kgen::expr::floor_mod(-a, 8)",
    "(a + b) / 2": "double(a + b) / 2",
    "min(a, b, 3)": "kgen::expr::min(kgen::expr::min(a, b), 3)",
    "align(ceil_div(a, 2), 16)": "kgen::expr::align_up(kgen::expr::ceil_div(a, 2), 16)",
    "slope[head] * 0.5": "slope[head] * 0.5",
    "target.wave * 2": "target.wave * 2",
    "100000 * 100000": "int64_t(100000) * 100000",
    "tanh(s / cap) * cap": "kgen::expr::tanh(double(s) / cap) * cap",
}


@pytest.mark.parametrize("text", [text for text, printed in PRINTED.items() if printed])
def test_brackets_only_where_cpp_needs_them(text: str):
    assert print_cpp(parse_expr(text)) == PRINTED[text]


def test_bounds_prove_that_plain_division_serves():
    bounds = {"t": (0, None), "n": (1, 8)}
    expr = parse_expr("(t + 3) // n * 2 + t % 8")
    assert print_cpp(expr, bounds) == "(t + 3) / n * 2 + t % 8"
    assert print_cpp(expr, {"t": (0, None), "n": (0, 8)}) == "kgen::expr::floor_div(t + 3, n) * 2 + t % 8"
    assert print_cpp(parse_expr("(t - 1) % 8"), bounds) == "kgen::expr::floor_mod(t - 1, 8)"


def test_numbers_keep_their_value():
    assert print_cpp(Int(-(2**63))) == "-9223372036854775807 - 1"
    assert print_cpp(Binary("*", Name("a"), Int(-(2**63)))) == "a * (-9223372036854775807 - 1)"
    assert print_cpp(literal(0.1)) == "0.1"
    assert print_cpp(parse_expr("s * 0.1"), real="float") == "s * 0.1f"


def test_words_have_no_form_in_cpp():
    with pytest.raises(KgenError, match=r"K336.*'bf16' has no form in C\+\+"):
        print_cpp(parse_expr("dtype == 'bf16'"))
    with pytest.raises(KgenError, match="K336"):
        print_cpp(parse_expr("sizeof(dtype)"))


def test_chains_that_would_print_without_end_are_refused():
    expr: Expr = Name("a")
    for _ in range(20):
        inner = Compare(("<", "<"), (Name("a"), expr, Name("b")))
        expr = parse_expr("1 if c else 2")
        expr = type(expr)(inner, Int(1), Int(2))
    with pytest.raises(KgenError, match="K111"):
        print_cpp(expr)


def test_wide_chains_print_without_recursion():
    many = tuple(Name(f"v{i}") for i in range(1500))
    assert print_cpp(Compare(("<",) * 1499, many)).count("&&") == 1498
    assert print_cpp(In(Name("a"), many)).count("||") == 1499


def _cases(count: int) -> list[tuple[Expr, dict[str, int | float], object]]:
    """Random expressions that have a value, with it."""
    found: list[tuple[Expr, dict[str, int | float], object]] = []

    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(int_exprs() | bool_exprs() | float_exprs(), environments())
    def collect(expr: Expr, names: dict[str, int | float]) -> None:
        try:
            found.append((expr, names, evaluate(to_code(expr), names)))
        except KgenError:
            return

    collect()
    return found


def _source(texts: list[str], names: list[dict[str, int | float]]) -> str:
    """One program that prints the value of each text in its environment, exactly."""
    lines = [
        "#include <cstdio>",
        "#include <kgen/arith.hpp>",
        'static void show(bool v) { std::puts(v ? "True" : "False"); }',
        'static void show(int64_t v) { std::printf("%lld\\n", (long long)v); }',
        "static void show(int v) { show(int64_t(v)); }",
        'static void show(double v) { std::printf("%a\\n", v); }',
        "using I = const volatile int64_t;",
        "using F = const volatile double;",
    ]
    for i, (text, values) in enumerate(zip(texts, names, strict=True)):
        arguments = ", ".join(f"{'double' if n in 'xy' else 'int64_t'} {n}" for n in values)
        unused = "".join(f"(void){n}; " for n in values)
        lines.append(f"static void f{i}({arguments}) {{ {unused}show({text}); }}")
    lines.append("int main() {")
    for i, values in enumerate(names):
        given_values = ", ".join(print_cpp(literal(v)) for v in values.values())
        lines.append(f"  f{i}({given_values});")
    return "\n".join([*lines, "}", ""])


def _run(texts: list[str], names: list[dict[str, int | float]], folder: Path) -> list[str]:
    source, program = folder / "cases.cpp", folder / "cases"
    source.write_text(_source(texts, names))
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    flags += ["-Wno-unused", "-Wno-tautological-compare"]
    trap = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    command = ["g++", *flags, *trap, f"-I{include_dir()}", str(source), "-o", str(program)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr[:4000]
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def _same(value: object, printed: str) -> bool:
    if isinstance(value, float):
        other = float.fromhex(printed)
        return math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-300) or (
            value != value and other != other
        )
    return str(value) == printed


@pytest.mark.slow
def test_cpp_computes_what_the_evaluator_computes(tmp_path: Path):
    """As written, and simplified with what is known of the names; warnings and overflow are errors."""
    cases = _cases(300)
    assert len(cases) > 100
    texts = [print_cpp(expr) for expr, _, _ in cases]
    texts += [print_cpp(expr, BOUNDS) for expr, _, _ in cases]
    names = [values for _, values, _ in cases] * 2
    results = _run(texts, names, tmp_path)
    wrong = [
        f"{text} is {printed}, not {value}, for {values}"
        for (_, values, value), text, printed in zip(cases * 2, texts, results, strict=True)
        if not _same(value, printed)
    ]
    assert not wrong, min(wrong, key=len)


@pytest.mark.slow
def test_simplified_cpp_computes_the_same(tmp_path: Path):
    cases = [case for case in _cases(250) if magnitude(case[0], case[1]) < 2**62]
    assert len(cases) > 100
    texts = [print_cpp(simplify(expr, BOUNDS, FLOATS), BOUNDS) for expr, _, _ in cases]
    results = _run(texts, [values for _, values, _ in cases], tmp_path)
    wrong = [
        f"{print_cpp(expr)} became {text}, which is {printed}, not {value}, for {values}"
        for (expr, values, value), text, printed in zip(cases, texts, results, strict=True)
        if not _same(value, printed)
    ]
    assert not wrong, min(wrong, key=len)


def test_helpers_floor_for_every_sign(tmp_path: Path):
    pairs = [(a, b) for a in (-9, -8, -7, -1, 0, 1, 7, 8, 9) for b in (-4, -3, -1, 1, 3, 4)]
    names = [{"a": a, "b": b} for a, b in pairs]
    texts = ["kgen::expr::floor_div(a, b)", "kgen::expr::floor_mod(a, b)", "kgen::expr::ceil_div(a, b)"]
    results = _run([text for text in texts for _ in pairs], names * 3, tmp_path)
    expected = [a // b for a, b in pairs] + [a % b for a, b in pairs] + [-(-a // b) for a, b in pairs]
    assert [int(result) for result in results] == expected
