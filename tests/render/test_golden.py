"""generated/ is the expansion of specs/builds/golden.yaml: all of it, up to date, nothing else."""

from pathlib import Path

import pytest

from kgen.render.emit import render

GENERATED = Path(__file__).parents[2] / "generated"


@pytest.fixture(scope="module")
def wanted(accepted):
    return {f"{r.variant.name}{r.suffix}": r.text for r in map(render, accepted("golden", "cpu_generic"))}


def test_nothing_is_missing_or_left_over(wanted):
    assert sorted(p.name for p in GENERATED.iterdir()) == sorted(wanted), "run `make generated`"


def test_every_file_is_up_to_date(wanted):
    for name, text in wanted.items():
        assert (GENERATED / name).read_bytes() == text.encode(), f"{name}: run `make generated`"
