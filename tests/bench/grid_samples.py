"""A small grid, and rows as if it had been measured."""

from kgen import api
from kgen.bench.decode import Row
from kgen.bench.measure import Spread
from kgen.spec.load import load_bench

GRID = """\
bench: small
workloads:
  even: {batch: 2, context: 40}
  mixed: {batch: 3, context: 40, ragged: true, seed: 2}
heads:
  h4_2: {heads: 4, kv_heads: 2, head_dim: 64}
  h8_1: {heads: 8, kv_heads: 1, head_dim: 64}
axes: {dtype: [f32], layout: [bhsd], block_size: [16]}
means:
  all: "true"
  grouped: kv_heads > 1
"""


def small_grid(folder):
    """The grid, read from a file in a folder."""
    file = folder / "small.yaml"
    file.write_text(GRID)
    return load_bench(file, api.check())


def row(shape, *, share=0.8, ratio=1.1, best="other"):
    """A row whose kernel has this share of both ceilings and this ratio to the one peer."""
    seconds = 1e-3
    return Row(
        variant="some_variant",
        shape=shape,
        seconds=Spread(seconds, seconds, seconds),
        of_ceiling=Spread(share, share, share),
        of_stream=Spread(share / 2, share / 2, share / 2),
        ceiling_seconds=seconds * share,
        stream_seconds=seconds * share / 2,
        peers={best: Spread(seconds * ratio, 0.0, 0.0)} if best else {},
        best_peer=best,
        speedup=Spread(ratio, ratio, ratio) if best else None,
        rotation=(2, 1000, 10),
    )
