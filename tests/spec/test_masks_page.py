"""docs/masks.md tells the truth: its build loads, its table is complete, its drawing is what is drawn."""

import re
from pathlib import Path

from kgen.masks.draw import Grid, draw, tile_map
from kgen.paths import specs_dir
from kgen.spec.load import load_build, load_catalog, load_masks

PAGE = (Path(__file__).parents[2] / "docs" / "masks.md").read_text()
SHARED = load_masks(specs_dir() / "masks.yaml")


def test_the_build_loads(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
    build = load_build(path, load_catalog())
    assert list(build.masks["strided"].args) == ["stride", "near"]


def test_every_shared_mask_is_listed_with_its_arguments():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*?) ?\|$", PAGE, re.MULTILINE))
    assert list(rows) == list(SHARED)
    for name, mask in SHARED.items():
        listed = re.findall(r"`(.*?)`", rows[name])
        assert listed == [f"{arg}: {kind}" for arg, kind in mask.args.items()], name


def test_the_drawing_is_what_is_drawn():
    tiles = tile_map(SHARED["sinks"], Grid(256, 1024, 64, 64), {"window": 256, "sinks": 4})
    shown = [line for line in PAGE.splitlines() if line.startswith("      ")]
    assert [line.strip() for line in shown] == [line.strip() for line in draw(tiles).splitlines()]
