"""`kgen list --resources`: planned beside real, by hand-made entries."""

import json

import pytest

from kgen import api
from kgen.cli import main
from kgen.commands.resources import resource_row, resources_json
from kgen.inspect.report import real_occupancy
from kgen.manifest import Entry, Launch


@pytest.fixture(scope="module")
def variants():
    return {v.target.name: v for v in api.expand("golden").accepted if v.op.name == "paged_attention"}


def entry(variant, dynamic=0, **resources):
    one = (["int", 1], ["int", 1], ["int", 1])
    return Entry(
        name=variant.name, op=variant.op.name, key="k", params=variant.params, target=variant.target.name,
        kind="hip", artefact="kernel.co", symbol=variant.name, sha256="", resources=resources,
        launch=Launch(one, 256, dynamic), compile_seconds=1.256,
    )  # fmt: skip


def test_a_built_gpu_kernel(variants):
    variant = variants["gfx942"]
    made = entry(variant, vgpr=88, agpr=8, sgpr=40, lds_bytes=8320, spills=0, scratch_bytes=0, bytes=9000)
    row = resource_row(variant, made)
    planned = variant.resources
    assert planned.lds_bytes == 8320
    assert row["LDS"] == "8320 / 8320"
    assert row["registers"] == f"{planned.registers} / 88"
    assert row["waves"] == f"{planned.occupancy.waves} / 20"
    assert row["limited by"] == "registers"
    assert (row["spills"], row["scratch"], row["bytes"], row["compile s"]) == ("0", "0", "9000", "1.26")


def test_dynamic_shared_memory_is_real(variants):
    made = entry(variants["gfx942"], dynamic=40000, vgpr=8, lds_bytes=8320)
    assert resource_row(variants["gfx942"], made)["LDS"] == "8320 / 48320"
    assert real_occupancy(made, variants["gfx942"].target).blocks == 1


def test_nothing_built_yet(variants):
    variant = variants["gfx942"]
    row = resource_row(variant, None)
    assert row["registers"] == f"{variant.resources.registers} / -"
    assert row["waves"].endswith(" / -")
    assert "spills" not in row
    shown = resources_json(variant, None)
    assert shown["resources"] == {}
    assert shown["planned"]["lds_bytes"] == 8320
    assert shown["planned"]["occupancy"]["max_waves"] == 32


def test_a_cpu_kernel_has_size_and_time_alone(variants):
    variant = variants["cpu_generic"]
    assert resource_row(variant, entry(variant, bytes=70000)) == {"bytes": "70000", "compile s": "1.26"}
    assert resource_row(variant, None) == {}
    assert resources_json(variant, None) == {"planned": {}, "resources": {}}


def test_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    assert main(["list", "golden", "--resources"]) == 0
    out = capsys.readouterr().out
    line = next(
        row for row in out.splitlines() if row.startswith("paged_attention_gfx942") and "_p512" in row
    )
    assert "8320 / -" in line
    assert "17 of these are not built yet" in out
    assert main(["list", "golden", "--resources", "--json"]) == 0
    found = {v["name"]: v for v in json.loads(capsys.readouterr().out)["accepted"]}
    assert found["paged_attention_gfx942_f16_d128_b16_bhsd_r4_p512"]["planned"]["lds_bytes"] == 8320
