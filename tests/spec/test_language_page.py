"""docs/language.md tells the truth: its examples load, and nothing of the language is missing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kgen.semantics import DTYPES, FUNCTIONS
from kgen.spec.load import (
    load_bench,
    load_build,
    load_catalog,
    load_layouts,
    load_op,
    load_target,
    load_tuning,
)
from kgen.spec.types import RECORDS
from kgen.syntax import parser, yaml

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def block(first: str) -> str:
    return next(text for text in BLOCKS if text.startswith(first))


@pytest.mark.parametrize(
    ("first", "read"),
    [
        ("layouts:", load_layouts),
        ("target:", load_target),
        ("build:", lambda path: load_build(path, load_catalog())),
        ("op:", lambda path: load_op(path, {})),
        ("bench:", lambda path: load_bench(path, load_catalog())),
        ("tuned:", lambda path: load_tuning(path, load_catalog().ops)),
    ],
)
def test_examples_load(first: str, read: Callable[[Path], object], tmp_path: Path):
    path = tmp_path / "example.yaml"
    path.write_text(block(first))
    assert read(path)


def test_the_variants_load_too(tmp_path: Path):
    path = tmp_path / "example.yaml"
    path.write_text(block("op:") + block("variants:"))
    assert list(load_op(path, {}).variants) == ["causal", "sliding", "softcap", "alibi"]


def test_every_function_field_and_dtype_is_listed():
    for name in FUNCTIONS:
        assert f"`{name}(" in PAGE, name
    for fields in RECORDS.values():
        for field in fields:
            assert f"`{field}`" in PAGE, field
    for dtype, size in DTYPES.items():
        assert f"{dtype} {size}" in PAGE


def test_the_limits_are_those_of_the_code():
    text = PAGE.replace(",", "")
    for limit in (parser.MAX_LENGTH, yaml.MAX_CHARACTERS, yaml.MAX_NODES):
        assert str(limit) in text
    assert f"{parser.MAX_DEPTH} levels" in text
    assert f"{yaml.MAX_DEPTH} levels" in text


def test_every_diagnostic_of_the_language_is_listed():
    sources = [
        p for room in ("syntax", "spec") for p in (Path(parser.__file__).parents[1] / room).glob("*.py")
    ]
    sources.append(Path(parser.__file__).parents[1] / "arithmetic.py")
    used = {code for path in sources for code in re.findall(r'"(K[12]\d\d)"', path.read_text())}
    assert used == set(re.findall(r"K[12]\d\d", PAGE))
