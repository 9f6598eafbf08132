"""`kgen explain regions`: which tiles of a shape a mask leaves full, partial and empty."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgen.commands.common import add_json, positive, print_json, whole
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from kgen.masks.draw import TileMap
    from kgen.spec.model import VariantSpec

DETAILS = """\
Draw how kernels see a mask: a tile of queries against tiles of keys. Full tiles (#) are computed without
a test, partial ones (+) test every pair, empty ones (.) are never looked at. The last query stands at the
last key. VARIANT is a mask of specs/masks.yaml, or one that the build BUILD defines.

examples:
  kgen explain regions causal --q-len 3 --kv-len 7 --block-m 2 --block-n 2
  kgen explain regions sinks --q-len 1024 --kv-len 2048 --arg window=512 --arg sinks=4
  kgen explain regions chunked --q-len 512 --kv-len 512 --arg chunk=100 --plot chunked.png
"""


def add_arguments(kinds: Any) -> None:
    """The `regions` kind of `kgen explain`."""
    parser = kinds.add_parser(
        "regions",
        help="which tiles a mask leaves full, partial and empty",
        description=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("variant", metavar="VARIANT")
    parser.add_argument("--q-len", type=whole, required=True, metavar="N", help="queries")
    parser.add_argument(
        "--kv-len", type=whole, required=True, metavar="N", help="keys, those of the prefix too"
    )
    parser.add_argument("--block-m", type=positive, default=64, metavar="N", help="queries in a tile (64)")
    parser.add_argument("--block-n", type=positive, default=64, metavar="N", help="keys in a tile (64)")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of VARIANT"
    )
    parser.add_argument("--build", metavar="BUILD", help="a build whose masks VARIANT may name")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw a picture (needs matplotlib)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.masks.draw import Grid, draw, tile_map

    variant = _variant(args.variant, args.build)
    grid = Grid(args.q_len, args.kv_len, args.block_m, args.block_n)
    tiles = tile_map(variant, grid, _values(variant, args.arg))
    if args.plot is not None:
        _plot(tiles, variant.name, args.plot)
    if args.json:
        print_json({"variant": variant.name, "tiles": tiles.rows})
    else:
        print(f"{variant.name}: {_mask_text(variant)}\n{draw(tiles)}")
    return 0


def _variant(name: str, build: str | None) -> VariantSpec:
    from kgen import api, paths
    from kgen.spec.load import MASKS, load_build, load_masks

    known = dict(load_masks(paths.shown(paths.specs_dir()) / MASKS))
    if build is not None:
        known |= load_build(api.build_path(build), api.check()).masks
    if name in known:
        return known[name]
    raise KgenError(Diagnostic("K205", f"there is no mask '{name}'", hint=choice_hint(name, list(known))))


def _mask_text(variant: VariantSpec) -> str:
    from kgen.variants.scope import text_of

    return text_of(variant.mask.span) if variant.mask is not None else "every key is visible"


def _values(variant: VariantSpec, given: list[str]) -> Mapping[str, Any]:
    """The arguments as numbers; one of an array over `batch` is the value of the one sequence drawn.

    Raises KgenError for names the variant does not have, and for those that its mask needs."""
    from kgen.commands.explain import pairs
    from kgen.spec.evaluate import evaluate_expr
    from kgen.syntax.ast import names_of

    values = pairs(given)
    listed = ", ".join(f"{name}: {kind}" for name, kind in variant.args.items()) or "none"
    for name, value in values.items():
        if name not in variant.args:
            message = f"'{variant.name}' has no argument '{name}'"
            raise KgenError(Diagnostic("K205", message, hint=f"arguments: {listed}"))
        if isinstance(value, str | bool) or ("int" in str(variant.args[name]) and not isinstance(value, int)):
            message = f"{name} is {variant.args[name]}; '{value}' is none"
            raise KgenError(Diagnostic("K208", message))
    used = names_of(variant.mask) if variant.mask is not None else frozenset()
    for name, kind in variant.args.items():
        if name in used and kind.axis in ("", "batch") and name not in values:
            raise KgenError(
                Diagnostic("K202", f"'{variant.name}' needs --arg {name}=...", hint=f"arguments: {listed}")
            )
    for guard in variant.guards:
        if names_of(guard.check) <= values.keys() and not evaluate_expr(guard.check, values):
            raise KgenError(Diagnostic("K515", guard.because, guard.span))
    return {name: [value] if variant.args[name].axis else value for name, value in values.items()}


def _plot(tiles: TileMap, name: str, file: Path) -> None:
    """A picture of the tiles, as PNG or what the file's suffix says."""
    from kgen import pictures
    from kgen.masks.draw import EMPTY, FULL, PARTIAL

    pyplot = pictures.pyplot()
    shade = {EMPTY: 0.0, PARTIAL: 0.5, FULL: 1.0}
    figure, axes = pyplot.subplots()
    axes.imshow(
        [[shade[kind] for kind in row] for row in tiles.rows], cmap="Blues", vmin=0, vmax=1, aspect="equal"
    )
    axes.set_title(f"{name}: full, partial and empty tiles")
    axes.set_xlabel(f"tiles of {tiles.grid.block_n} keys")
    axes.set_ylabel(f"tiles of {tiles.grid.block_m} queries")
    pictures.save(figure, file)
