"""Sources for DCUs, where no compiler for one is installed: they parse, and never ask for an MFMA."""

import shutil
import subprocess

import pytest

from kgen import paths
from kgen.inspect.stand_in import assembly
from kgen.render.emit import render
from tests.codegen.disassembly import only_turn, variant

CLANG = "clang++-19"
FLAGS = ("--offload-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-Wall", "-Wextra", "-Werror")

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")


def parse(source: str, stand_in: tuple[str, ...], *defines: str) -> subprocess.CompletedProcess[str]:
    words = [
        CLANG,
        "-x",
        "hip",
        "-fsyntax-only",
        *FLAGS,
        *stand_in,
        *defines,
        f"-I{paths.include_dir()}",
        "-",
    ]
    return subprocess.run(words, input=source, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("arch", ["gfx928", "gfx936", "gfx938"])
def test_the_matrix_form_of_decode_parses(arch, dtype):
    made = variant(
        arch,
        dtype=dtype,
        head_dim=80,
        block_size=64,
        layout="bhsd",
        reuse_kv_times=16,
        partition_size=512,
    )
    source = render(made).text
    assert made.lets["matrix"] and "kgen::mmac_f32_16x16x16_" in source and "mfma" not in source.lower()
    opaque = parse(source, made.target.stand_in, "-DKGEN_SYNTAX_ONLY")
    assert (opaque.returncode, opaque.stderr) == (0, "")


def test_a_compiler_without_the_builtin_gets_the_instruction_written_out():
    made = variant("gfx936", dtype="f16", head_dim=64, block_size=64, layout="bhsd", reuse_kv_times=8)
    written = parse(render(made).text, made.target.stand_in)
    assert (written.returncode, written.stderr) == (0, "")


def test_the_form_that_lays_d_out_anew_needs_its_builtin():
    made = variant("gfx938", dtype="f16", head_dim=64, block_size=64, layout="bhsd", reuse_kv_times=8)
    refused = parse(render(made).text, made.target.stand_in)
    assert refused.returncode != 0 and "mmac_f32_16x16x16_f16_lit" in refused.stderr


@pytest.mark.parametrize("form", [{}, {"head_dim": 64}, {"head_dim": 256}, {"partition_size": -1}], ids=str)
@pytest.mark.parametrize("arch", ["gfx936", "gfx938"])
def test_loads_of_the_next_tile_are_under_way_on_the_stand_in(arch, form):
    params = {"head_dim": 128, "block_size": 64, "layout": "bshd", "reuse_kv_times": 8, "partition_size": 0}
    made = variant(arch, dtype="bf16", **{**params, **form})
    taken = only_turn(made.name, assembly(made))
    key_chunks, value_chunks = -(-made.params["head_dim"] // 32), -(-made.params["head_dim"] // 128)
    tile = key_chunks + 4 * value_chunks
    assert taken.census["load_16"] == 2 * tile
    assert taken.census["matrix"] == 2 * (2 * key_chunks + 8 * value_chunks)
    assert taken.kept == tile and min(taken.matrix_loads) >= tile // 2
    assert all(wait.left > 0 for wait in taken.waits)
    assert taken.address.keys() == {"scalar"} and "load_narrow" not in taken.census
