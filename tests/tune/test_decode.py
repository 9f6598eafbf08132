"""The tuner's own calls, on a shape of a few kilobytes: every variant is checked and timed."""

from kgen import api
from kgen.spec.benches import BenchCell, Heads, Workload
from kgen.tune import decode


def test_every_variant_is_checked_and_timed(tmp_path, monkeypatch):
    monkeypatch.setattr("kgen.bench.pool.last_level_cache", lambda device: 1 << 12)
    (tmp_path / "some.yaml").write_text(
        """\
build: some
variants:
  - op: paged_attention
    axes: {arch: [native], dtype: [f32], head_dim: [64], block_size: [16], layout: [bhsd],
           reuse_kv_times: [1, 4], partition_size: [0, 512]}
"""
    )
    cell = BenchCell(Workload("w", 2, 600), Heads("h", 4, 2, 64), "f32", "bhsd", 16)
    variants = api.expand(tmp_path / "some.yaml").accepted
    checked = []
    check = decode.Decode.check

    def checking(self):
        checked.append(check(self))
        return checked[-1]

    monkeypatch.setattr(decode.Decode, "check", checking)
    times = decode.measure(cell, variants, "cpu", {"rounds": 3, "threads": 1})
    assert checked == list(times) == [variant.name for variant in variants]
    assert all(len(one) == 3 and min(one) > 0 for one in times.values())
