"""A build of kernels that are never made, and a grid of calls that they serve."""

from kgen import api
from kgen.spec.load import load_bench
from kgen.tune.classes import classes_of

BUILD = """\
build: some
variants:
  - op: paged_attention
    axes:
      arch: [cpu_generic, "sim:sm_90"]
      dtype: [f32, bf16]
      head_dim: [64]
      block_size: [16]
      layout: [bshd]
      reuse_kv_times: [1, 4]
      partition_size: [0, 512, 1024]
  - op: copy_blocks
    axes: {arch: [cpu_generic]}
"""
GRID = """\
bench: few
workloads:
  b1_4k: {batch: 1, context: 4096}
  b128_1k: {batch: 128, context: 1024}
  mixed: {batch: 64, context: 1024, ragged: true}
heads:
  h8_2: {heads: 8, kv_heads: 2, head_dim: 64}
  h8_2_d128: {heads: 8, kv_heads: 2, head_dim: 128}
axes: {dtype: [f32], layout: [bshd, bhsd], block_size: [16]}
"""


def few_classes(folder):
    """The classes of the build: two workloads of one shape of heads."""
    (folder / "some.yaml").write_text(BUILD)
    (folder / "few.yaml").write_text(GRID)
    bench = load_bench(folder / "few.yaml", api.check())
    return classes_of(api.expand(folder / "some.yaml"), bench, api.compiler().policy)


def seconds(one, **times):
    """Three rounds a variant, by the free parameters in its name; 1 s for those not given."""
    given = {variant.name: 1.0 for variant in one.variants}
    for label, time in times.items():
        (name,) = [name for name in given if name.endswith(f"_{label}")]
        given[name] = time
    return {name: time if isinstance(time, list) else [time] * 3 for name, time in given.items()}
