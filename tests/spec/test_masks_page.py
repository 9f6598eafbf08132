"""docs/masks.md tells the truth: its build loads and runs, its table is complete, its drawing is drawn."""

import re
from pathlib import Path

import torch

from kgen import api, ops, reference
from kgen.masks.draw import Grid, draw, tile_map
from kgen.paths import specs_dir
from kgen.spec.load import load_build, load_catalog, load_masks

PAGE = (Path(__file__).parents[2] / "docs" / "masks.md").read_text()
SHARED = load_masks(specs_dir() / "masks.yaml")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_build_loads(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(block("yaml"))
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


def test_the_example_computes_the_mask_of_the_build(tmp_path: Path, empty_cache: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(block("yaml"))
    api.build_matrix(api.expand(path), progress="quiet")
    ops.reset()
    names: dict[str, torch.Tensor] = {}
    exec(compile(block("python"), "masks.md", "exec"), names)
    ops.reset()

    def mask(at: reference.Point) -> torch.Tensor:
        return (at.kv <= at.q) & ((at.kv % 4 == 0) | (at.q - at.kv < 8))

    for row, (rows, length) in enumerate([(slice(0, 5), 40), (slice(5, 38), 33)]):
        pages = names["block_table"][row].long()
        keys, values = (names[cache][pages].flatten(0, 1)[:length] for cache in ("k_cache", "v_cache"))
        want, lse = reference.attention(names["q"][rows], keys, values, 64**-0.5, mask=mask)
        torch.testing.assert_close(names["out"][rows].double(), want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(names["lse"][rows].double(), lse, rtol=1e-5, atol=1e-5)
