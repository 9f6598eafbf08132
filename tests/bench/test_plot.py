import pytest

from kgen.bench.grid import run_grid
from kgen.bench.outcome import GridReport, Outcome
from kgen.bench.plot import panels_of, plot
from kgen.diagnostics import KgenError
from tests.bench.grid_samples import row, small_grid


@pytest.fixture
def report(tmp_path):
    return run_grid(small_grid(tmp_path), {}, measure=lambda shape, options, progress: row(shape))


def test_a_picture_is_drawn(report, tmp_path):
    pytest.importorskip("matplotlib")
    failed = Outcome("another", failed="why")
    plot(GridReport("small", "", {}, {}, (*report.outcomes, failed)), tmp_path / "grid.png")
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_heads_have_panels_of_their_own(report):
    panels = panels_of((*report.outcomes, Outcome("another", failed="why")))
    assert {title: len(cells) for title, cells in panels.items()} == {
        "4/2 heads of 64, f32": 2,
        "8/1 heads of 64, f32": 2,
    }


def test_what_cannot_be_drawn_is_said(report, tmp_path):
    with pytest.raises(KgenError, match="nothing to draw"):
        plot(GridReport("small", "", {}, {}, (Outcome("one", failed="why"),)), tmp_path / "grid.png")
    pytest.importorskip("matplotlib")
    with pytest.raises(KgenError, match="cannot draw"):
        plot(report, tmp_path / "absent" / "grid.png")
    with pytest.raises(KgenError, match="cannot draw"):
        plot(report, tmp_path / "grid.format")
