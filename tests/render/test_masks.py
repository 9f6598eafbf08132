"""Masks, scores and loops as C++: the text a template gets, and that it computes what the language says."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from kgen.masks.regions import regions
from kgen.masks.segments import segments
from kgen.paths import include_dir
from kgen.render.abi import args_struct
from kgen.render.context import context
from kgen.render.masks import Masks
from kgen.spec.load import load_masks
from kgen.syntax.ast import Int
from tests.masks.mask_samples import BATCH, arguments, random_tile, shared

PLACES = {"q": "q", "kv": "token", "head": "h", "batch": "seq"}


def masks_of(tmp_path: Path, text: str) -> Masks:
    path = tmp_path / "masks.yaml"
    path.write_text(f"masks:\n  one: {text}\n")
    return Masks(load_masks(path)["one"])


def test_masks_and_scores_speak_of_places_and_members():
    printed = {name: Masks(mask) for name, mask in shared().items()}
    assert printed["none"].mask(**PLACES) == ""
    assert printed["causal"].mask(**PLACES) == "token <= q"
    assert printed["causal"].score(s="dot", **PLACES) == ""
    assert printed["alibi"].score(s="dot", **PLACES) == "dot + v.slope[h] * (token - q)"
    assert printed["prefix_lm"].mask(**PLACES) == "token <= q || token < v.prefix"
    assert printed["document"].mask(**PLACES).endswith("v.query_document[q] == v.key_document[token]")
    assert printed["softcap"].score(s="dot", **PLACES) == "v.cap * kgen::expr::tanh(float(dot) / v.cap)"
    assert printed["causal"].mask(q="first + i", kv="t * 16 + j") == "t * 16 + j <= first + i"


def test_a_mask_that_hides_nothing_is_empty(tmp_path: Path):
    assert masks_of(tmp_path, "{mask: kv >= 0 or head > 2}").mask(**PLACES) == ""


def test_what_is_known_to_be_above_zero_divides_as_c_does():
    assert "token / v.chunk == kgen::expr::floor_div(q, v.chunk)" in Masks(shared()["chunked"]).mask(**PLACES)


def test_loops_of_a_tile():
    loops = Masks(shared()["causal"]).segments(q_lo="lo", q_hi="hi", kv_end="n", tile=64)
    assert [(line.name, line.text) for line in loops.steps] == [
        ("keys_end", "kgen::expr::max(0, kgen::expr::min(n, hi + 1))"),
        ("full_end", "kgen::expr::max(0, kgen::expr::min(n, lo + 1)) / 64 * 64"),
    ]
    assert [(s.begin, s.end, s.full) for s in loops.segments] == [
        ("0", "full_end", True),
        ("full_end", "keys_end", False),
    ]


def test_one_query_needs_no_test_of_a_mask_that_is_known():
    for name, mask in shared().items():
        loops = Masks(mask).segments(q_lo="n - 1", q_hi="n - 1", kv_end="n")
        assert all(segment.full for segment in loops.segments) == (name != "document"), name


def test_neighbours_join_to_runs():
    loops = Masks(shared()["sinks"]).segments(q_lo="lo", q_hi="hi", kv_end="n", tile=64)
    assert len(loops.segments) == 5
    ends = [(run.begin, run.end, run.full) for run in loops.runs]
    assert ends == [("0", "keys_end", False), ("keys_begin", "keys_end_2", False)]


def test_one_query_may_see_every_key():
    everything = {
        name
        for name, mask in shared().items()
        if Masks(mask).segments(q_lo="n - 1", q_hi="n - 1", kv_end="n").everything
    }
    assert everything == {"none", "causal", "prefix_lm", "softcap", "alibi"}


def test_functions_of_floats_take_floats(tmp_path: Path):
    """Not every target has them in double."""
    score = masks_of(tmp_path, "{score: s - log2(1 + q - kv) * exp(s)}").score(s="x", **PLACES)
    assert score == "x - kgen::expr::log2(float(q - token + 1)) * kgen::expr::exp(x)"


def test_a_place_may_have_the_name_of_an_argument():
    loops = Masks(shared()["prefix_lm"]).segments(q_lo="q", q_hi="q", kv_end="n", kv_begin="prefix")
    assert loops.segments[0].begin == "prefix"
    assert "kgen::expr::min(n, v.prefix)" in loops.steps[0].text


def test_arguments_come_last_in_the_block(catalog, attention):
    op = catalog.ops["paged_attention"]
    plain = args_struct(op, op.variants["causal"])
    assert plain == args_struct(op)
    alibi = args_struct(op, op.variants["alibi"])
    assert (
        alibi.startswith("// The argument block") and "  // Of the variant.\n  int64_t v_slope;\n};" in alibi
    )
    assert "v_key_document_stride_seq" in args_struct(op, op.variants["document"])
    names = context(attention())
    assert names["variant_args"] == () and names["mask_expr"](q="q", kv="t") == "t <= q"


def test_an_operator_without_variants_has_no_masks(catalog):
    from kgen.variants.matrix import make_variant

    made = make_variant(catalog.ops["copy_blocks"], {"arch": "cpu_generic"}, catalog)
    assert made.mask is None and "mask_expr" not in context(made)


# ---- The compiled text against the evaluator ------------------------------------------------------------

NAMES = ("window", "left", "right", "sinks", "chunk", "prefix")
TILE = 4


def program() -> str:
    """Prints the segments of a mask, by its number, for the values on each line of stdin."""
    lines = [
        "#include <cstdio>",
        "#include <kgen/arith.hpp>",
        "struct V { int64_t " + ", ".join(NAMES) + "; };",
    ]
    for number, mask in enumerate(shared().values()):
        loops = Masks(mask).segments(q_lo="lo", q_hi="hi", kv_begin="from", kv_end="to", tile=TILE)
        lines.append(f"void f{number}(const V& v, int64_t lo, int64_t hi, int64_t from, int64_t to) {{")
        lines.append("  (void)v; (void)lo; (void)hi;")
        lines += [f"  const int64_t {line.name} = {line.text};" for line in loops.steps]
        for one in loops.segments:
            ends = f"(long long)({one.begin}), (long long)({one.end})"
            lines.append(f'  if ({one.begin} < {one.end}) std::printf("%lld:%lld:{int(one.full)} ", {ends});')
        lines.append('  std::puts("");\n}')
    lines.append("int main() {\n  long long m, lo, hi, from, to; V v;")
    reads = ", ".join(f"(long long*)&v.{name}" for name in NAMES)
    form = "%lld " * (5 + len(NAMES))
    lines.append(f'  while (std::scanf("{form}", &m, &lo, &hi, &from, &to, {reads}) > 0) switch (m) {{')
    lines += [f"    case {i}: f{i}(v, lo, hi, from, to); break;" for i in range(len(shared()))]
    return "\n".join([*lines, "  }\n}", ""])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segments")
    source, made = folder / "segments.cpp", folder / "segments"
    source.write_text(program())
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Werror",
        "-fsanitize=undefined",
        "-fsanitize-undefined-trap-on-error",
    ]
    subprocess.run(["g++", *flags, f"-I{include_dir()}", str(source), "-o", str(made)], check=True)
    return made


def test_compiled_loops_are_those_of_the_evaluator(compiled: Path):
    rng, lines, wanted = np.random.default_rng(3), [], []
    for number, (name, mask) in enumerate(shared().items()):
        found = segments(regions(mask), tile=Int(TILE))
        for _ in range(200):
            args, (low, high, begin, end, _) = arguments(name, rng), random_tile(rng)
            names = {"q.lo": low, "q.hi": high, "kv.begin": begin, "kv.end": end}
            wanted.append(
                [f"{a}:{b}:{int(full)}" for a, b, full in found.at({**args, **names, "batch": BATCH})]
            )
            values = [args.get(arg, 0) for arg in NAMES]
            plain = [value[BATCH] if isinstance(value, list) else value for value in values]
            lines.append(" ".join(map(str, (number, low, high, begin, end, *plain))))
    run = subprocess.run([compiled], input="\n".join(lines), capture_output=True, text=True, check=True)
    assert [line.split() for line in run.stdout.splitlines()] == wanted


def test_tanh_is_right_to_a_few_units(tmp_path: Path):
    source, made = tmp_path / "tanh.cpp", tmp_path / "tanh"
    source.write_text(
        "#include <cstdio>\n#include <kgen/arith.hpp>\n"
        'int main() { float x; while (std::scanf("%f", &x) > 0)\n'
        '  std::printf("%a\\n", kgen::expr::tanh(x)); }\n'
    )
    subprocess.run(
        ["g++", "-std=c++17", "-O2", f"-I{include_dir()}", str(source), "-o", str(made)], check=True
    )
    x = np.concatenate([np.geomspace(1e-6, 40, 4000), [0.0, np.inf]]).astype(np.float32)
    x = np.concatenate([x, -x])
    run = subprocess.run([made], input="\n".join(map(str, x)), capture_output=True, text=True, check=True)
    got = np.array([float.fromhex(line) for line in run.stdout.split()])
    want = np.tanh(x.astype(np.float64))
    assert (np.abs(got - want) <= 4 * 2.0**-24 * np.abs(want)).all()
