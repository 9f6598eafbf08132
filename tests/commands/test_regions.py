"""`kgen explain regions`: the drawing, a mask of a build, and what is refused."""

import importlib.util
import json
from pathlib import Path

import pytest

from kgen.cli import main

SHAPE = ["--q-len", "3", "--kv-len", "7", "--block-m", "2", "--block-n", "2"]


def test_the_drawing(capsys):
    assert main(["explain", "regions", "causal", *SHAPE]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["causal: kv <= q", "  q 4..5  ##+."]


def test_json(capsys):
    assert main(["explain", "regions", "prefix_lm", *SHAPE, "--arg", "prefix=7", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tiles"]
    assert rows == [["full"] * 3 + ["partial"]] * 2


def test_a_mask_of_a_build(capsys, tmp_path: Path):
    build = tmp_path / "own.yaml"
    build.write_text(
        "build: own\nmasks:\n  near: {mask: abs(q - kv) < far, args: {far: int}}\n"
        "variants:\n  - {op: copy_blocks, axes: {arch: [cpu_generic]}}\n"
    )
    assert main(["explain", "regions", "near", *SHAPE, "--arg", "far=3", "--build", str(build)]) == 0
    assert "  q 4..5  .+#+" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["causl"], "did you mean 'causal'?"),
        (["sliding"], "needs --arg window"),
        (["sliding", "--arg", "windw=3"], "no argument 'windw'"),
        (["sliding", "--arg", "window=0.5"], "window is int"),
        (["chunked", "--arg", "chunk=0"], "chunk must be above 0"),
    ],
)
def test_faults(capsys, words: list[str], told: str):
    assert main(["explain", "regions", words[0], *SHAPE, *words[1:]]) == 1
    assert told in capsys.readouterr().err


def test_a_plot_needs_matplotlib(capsys, tmp_path: Path):
    file = tmp_path / "causal.png"
    code = main(["explain", "regions", "causal", *SHAPE, "--plot", str(file)])
    if importlib.util.find_spec("matplotlib") is None:
        assert code == 1 and "pip install matplotlib" in capsys.readouterr().err
    else:
        assert code == 0 and file.read_bytes().startswith(b"\x89PNG")
