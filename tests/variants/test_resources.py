"""Planned resources: limits to the byte, and occupancy by each target's rules."""

from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.load import load_catalog, load_op
from kgen.targets.occupancy import Use, occupancy
from kgen.variants.explain import why_rejected
from kgen.variants.matrix import make_variant
from kgen.variants.model import Rejected, Variant

CATALOG = load_catalog()
OP = """\
op: toy
doc: Takes what its parameters say.
templates: {cpu: cpu/copy_blocks.cpp.j2, gpu: gpu/copy_blocks.hip.j2}
params:
  arch: {type: target, tag: "{}"}
  lds: {type: int, min: 0, max: 1000000, default: 0, tag: "l{}"}
  regs: {type: int, min: 0, max: 1000, default: 0, tag: "v{}"}
  threads: {type: int, min: 1, max: 2048, default: 256, tag: "t{}"}
  twice: {type: bool, default: "false", tag: "{}"}
let: {lds_bytes: lds, registers: regs}
require: [{check: regs != 13, because: thirteen is refused by the spec}]
arguments: {out: {dtype: f32, axes: {row: n}, access: write}}
grid:
  gpu: {x: n, y: 1, z: 1, block: threads}
  gpu_second: {x: n, y: 1, z: 1, block: threads * 2, when: twice}
"""
GPUS = ["gfx928", "gfx936", "gfx938", "gfx90a", "gfx942", "sm_80", "sm_90"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path: Path = tmp_path_factory.mktemp("ops") / "toy.yaml"
    path.write_text(OP)
    return load_op(path, {}, list(CATALOG.targets))


def settle(toy, **params):
    return make_variant(toy, params, CATALOG)


@pytest.mark.parametrize("arch", ["gfx928", "gfx936", "gfx938", "gfx90a", "gfx942", "sim:gfx936"])
def test_the_last_byte_of_lds_fits_and_the_next_is_refused(toy, arch):
    accepted = settle(toy, arch=arch, lds=65536)
    assert isinstance(accepted, Variant)
    assert accepted.resources.lds_bytes == 65536 and accepted.resources.occupancy.blocks == 1
    refused = settle(toy, arch=arch, lds=65537)
    assert isinstance(refused, Rejected)
    assert refused.rule == "lds_bytes <= target.lds_bytes"
    assert refused.figures == {"lds_bytes": 65537, "target.lds_bytes": 65536}
    name = arch.removeprefix("sim:")
    assert refused.because == f"a block has at most 65536 bytes of shared memory on {name}"
    assert refused.where is not None and refused.where.line == 10


@pytest.mark.parametrize(("arch", "most"), [("sm_80", 166912), ("sm_90", 232448)])
def test_nvidia_blocks_can_have_more(toy, arch, most):
    assert isinstance(settle(toy, arch=arch, lds=most), Variant)
    assert isinstance(settle(toy, arch=arch, lds=most + 1), Rejected)


@pytest.mark.parametrize("arch", GPUS)
def test_registers_and_threads(toy, arch):
    target = CATALOG.targets[arch]
    most = target.registers
    assert isinstance(settle(toy, arch=arch, regs=most), Variant)
    refused = settle(toy, arch=arch, regs=most + 1)
    assert refused.figures == {"registers": most + 1, "target.registers": most}
    assert isinstance(settle(toy, arch=arch, threads=1024), Variant)
    refused = settle(toy, arch=arch, threads=1025)
    assert refused.rule == "block <= target.max_threads"
    assert refused.figures == {"block": 1025, "target.max_threads": 1024}


def test_the_largest_block_of_several_kernels_counts(toy):
    assert settle(toy, arch="gfx936", threads=512, twice=True).resources.threads == 1024
    refused = settle(toy, arch="gfx936", threads=513, twice=True)
    assert isinstance(refused, Rejected) and refused.figures["block"] == 1026


def test_a_block_that_no_compute_unit_can_hold(toy):
    refused = settle(toy, arch="sm_90", regs=255, threads=1024)
    assert isinstance(refused, Rejected)
    assert refused.because == "a compute unit of sm_90 cannot hold one block: short of registers"
    assert refused.figures == {"block": 1024, "lds_bytes": 0, "registers": 255}


def test_every_limit_is_told_and_the_spec_comes_first(toy):
    given = {"arch": "gfx936", "lds": 70000, "regs": 300, "threads": 1100}
    rules = [rejected.rule for rejected in why_rejected(toy, given, CATALOG)]
    assert rules == [
        "lds_bytes <= target.lds_bytes", "registers <= target.registers", "block <= target.max_threads"
    ]  # fmt: skip
    rules = [r.rule for r in why_rejected(toy, {**given, "regs": 13}, CATALOG)]
    assert rules == ["regs != 13"]


def test_a_cpu_has_no_such_limits(toy):
    made = settle(toy, arch="cpu_generic", lds=900000, regs=1000, threads=2048)
    assert isinstance(made, Variant) and made.resources is None


@pytest.mark.parametrize(
    ("arch", "use", "blocks", "limited_by"),
    [
        # AMD: registers by eights of 512 a lane, eight waves a SIMD.
        ("gfx942", Use(256, registers=64), 8, ("waves", "registers")),
        ("gfx942", Use(256, registers=65), 7, ("registers",)),
        ("gfx942", Use(256, registers=88, scalar_registers=40), 5, ("registers",)),
        ("gfx942", Use(256, registers=256), 2, ("registers",)),
        ("gfx942", Use(256, registers=64, scalar_registers=102), 7, ("scalar_registers",)),
        ("gfx90a", Use(256, registers=32, lds_bytes=16384), 4, ("lds",)),
        ("gfx90a", Use(64, registers=32), 32, ("waves", "blocks")),
        ("gfx90a", Use(128, registers=32), 16, ("waves", "blocks")),
        # Hygon: ten waves a SIMD, registers by fours of 768 or 512.
        ("gfx936", Use(256, registers=76), 10, ("waves", "registers")),
        ("gfx936", Use(256, registers=77), 9, ("registers",)),
        ("gfx936", Use(256, registers=256), 3, ("registers",)),
        ("gfx928", Use(256, registers=256), 2, ("registers",)),
        ("gfx936", Use(256, registers=24, lds_bytes=32769), 1, ("lds",)),
        # NVIDIA: 65,536 registers by eights a thread, 1 KiB of each block reserved.
        ("sm_90", Use(256, registers=32), 8, ("waves", "registers")),
        ("sm_90", Use(256, registers=128), 2, ("registers",)),
        ("sm_90", Use(128, registers=255), 2, ("registers",)),
        ("sm_90", Use(256, registers=32, lds_bytes=102400), 2, ("lds",)),
        ("sm_80", Use(256, registers=32, lds_bytes=166912), 1, ("lds",)),
        ("sm_80", Use(32, registers=16), 32, ("blocks",)),
    ],
)
def test_occupancy(arch, use, blocks, limited_by):
    found = occupancy(CATALOG.targets[arch], use)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.waves == blocks * -(-use.threads // CATALOG.targets[arch].wave)
    assert 0 < found.share <= 1


def test_no_rules_no_occupancy():
    assert occupancy(CATALOG.targets["cpu_avx2"], Use(1)) is None


def test_what_cannot_be_computed_is_a_fault_of_the_spec(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(OP.replace("lds_bytes: lds,", "lds_bytes: 64 // lds,"))
    op = load_op(path, {}, list(CATALOG.targets))
    with pytest.raises(KgenError) as caught:
        settle(op, arch="gfx936", lds=0)
    assert [d.code for d in caught.value.diagnostics] == ["K209"]
