"""Masks and scores: those every operator has, those of a build, and what a call must hold to."""

from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.load import load_build, load_catalog, load_masks
from kgen.syntax.parser import parse_expr
from tests.spec.spec_samples import catalog

BUILD = """\
build: own
masks:
  every: {mask: kv % stride == 0, args: {stride: int}}
variants:
  - op: decode
    axes:
      arch: [host_avx]
      dtype: [f32]
      head_dim: [64]
      block_size: [16]
      layout: [bshd]
      variant: [every, causal]
"""


def masks_of(tmp_path: Path, text: str):
    path = tmp_path / "masks.yaml"
    path.write_text(f"masks:\n  one: {text}\n")
    return load_masks(path)["one"]


def test_every_operator_with_a_choice_of_variants_has_the_shared_ones():
    ops = load_catalog().ops
    shared = {"none", "causal", "sliding", "sinks", "prefix_lm", "chunked", "softcap", "alibi", "document"}
    assert shared <= set(ops["paged_attention"].variants)
    assert ops["merge_states"].variants == {}


def test_what_is_divided_by_is_guarded(tmp_path: Path):
    mask = masks_of(tmp_path, "{mask: kv // a == q % (b + 1), args: {a: int, b: int}}")
    assert [guard.check for guard in mask.guards] == [parse_expr("a > 0"), parse_expr("b + 1 > 0")]
    score = masks_of(tmp_path, "{score: s / cap + s / 2, args: {cap: float}}")
    assert [guard.check for guard in score.guards] == [parse_expr("cap != 0")]


@pytest.mark.parametrize("divisor", ["q", "kv - 1", "-2", "sizes[head]", "1 - 1"])
def test_what_may_be_zero_divides_nothing(tmp_path: Path, divisor: str):
    with pytest.raises(KgenError) as error:
        masks_of(tmp_path, f'{{mask: "kv // ({divisor}) > 0", args: {{sizes: "int[head]"}}}}')
    assert error.value.diagnostics[0].code == "K209"


def test_a_build_defines_masks_for_its_own_variants(tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(BUILD)
    build = load_build(path, catalog())
    assert build.masks["every"].of_build
    assert build.entries[0].axes[-1].values == ("every", "causal")
    assert "every" not in catalog().op("decode").variants
    assert list(catalog().with_masks(build.masks).op("decode").variants)[-1] == "every"
