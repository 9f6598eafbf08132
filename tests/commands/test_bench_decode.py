"""`kgen bench decode` over a grid, from the command line."""

import json
import sys

import pytest

from kgen import api
from kgen.bench import decode, grid
from kgen.cli import main
from kgen.diagnostics import Diagnostic, KgenError
from tests.bench.grid_samples import GRID, row


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The file of a small grid, measured at once; ragged cells of 8 heads fail."""

    def outcome(shape, options, progress):
        if shape.ragged and shape.heads == 8:
            raise RuntimeError("not today")
        return row(shape)

    run = grid.run_grid
    monkeypatch.setattr(grid, "run_grid", lambda *args, **more: run(*args, **more, measure=outcome))
    monkeypatch.setattr(api, "build_ahead", len)
    file = tmp_path / "small.yaml"
    file.write_text(GRID)
    return file


def kgen(*words):
    return main(["bench", "decode", *map(str, words)])


def test_a_grid_in_lines_and_as_a_document(small, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["kgen", "bench", "decode", "--only", "batch > 1"])
    assert kgen("--grid", small, "--json") == 1  # a cell failed
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert [bool(cell["failed"]) for cell in document["cells"]] == [False, False, False, True]
    assert document["command"] == "kgen bench decode --only 'batch > 1'"
    assert captured.err.count("kgen: [") == 4
    assert kgen("--grid", small, "--only", "heads == 4") == 0
    shown = capsys.readouterr().out
    assert "grouped (2)" in shown and "1.100x" in shown and "80.0%" in shown


def test_a_kernel_that_cannot_be_built_stops_no_other(small, capsys, monkeypatch):
    def build(wanted):
        raise KgenError(Diagnostic("K405", "it spills"))

    monkeypatch.setattr(api, "build_ahead", build)
    assert kgen("--grid", small, "--only", "heads == 4") == 0
    told = capsys.readouterr().err
    assert "its cells will say why: it spills" in told and "kgen: [2/2]" in told


def test_what_was_kept_is_shown_without_measuring(small, capsys, tmp_path, monkeypatch):
    kept = tmp_path / "kept.json"
    assert kgen("--grid", small, "--out", kept) == 1
    monkeypatch.setattr(grid, "run_grid", None)
    capsys.readouterr()
    assert kgen("--from", kept, "--json") == 1
    assert json.loads(capsys.readouterr().out) == json.loads(kept.read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "batch > 1"], "--only goes with --grid"),
        (["--out", "x.json"], "--out goes with --grid"),
        (["--from", "x.json", "--grid", "full"], "--from shows a run that is done"),
        (["--grid", "full", "--only", "batch >"], "--only:1:"),
        (["--grid", "ful"], "did you mean 'full'"),
        (["--grid", "full", "--batch", "3"], "--batch is decided by the grid"),
    ],
)
def test_options_that_do_not_go_together(words, message, capsys):
    assert kgen(*words) == 1
    assert message in capsys.readouterr().err


def test_a_picture_needs_matplotlib_before_anything_is_measured(small, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(grid, "run_grid", None)
    assert kgen("--grid", small, "--plot", tmp_path / "x.png") == 1
    assert "pip install matplotlib" in capsys.readouterr().err


def test_a_picture_of_single_calls(capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(decode, "measure", lambda shape, options, progress: row(shape))
    assert kgen("--dtype", "f32", "--plot", tmp_path / "x.png", "--json") == 0
    assert [one["shape"]["block_size"] for one in json.loads(capsys.readouterr().out)] == [16, 64]
    assert (tmp_path / "x.png").stat().st_size > 1000
