"""Reports on small kernels that real compilers made."""

import dataclasses
import json
import os
import shutil
import subprocess

import pytest

from kgen.build import elf
from kgen.cli import main
from kgen.commands.inspect import built
from kgen.diagnostics import KgenError
from kgen.inspect.disassemble import disassemble
from kgen.inspect.report import inspect
from kgen.manifest import Entry, Launch, Library, to_json
from kgen.spec.load import load_catalog

TARGETS = load_catalog().targets
HIP = """
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef unsigned uint4 __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global)) void k(const uint4* in, float4* out, int n) {
  __attribute__((shared)) static float tile[64];
  const int lane = __builtin_amdgcn_workitem_id_x();
  float4 sums = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    const uint4 both = in[i * 64 + lane];
    half4 pair[2];
    __builtin_memcpy(pair, &both, 16);
    sums = __builtin_amdgcn_mfma_f32_16x16x16f16(pair[0], pair[1], sums, 0, 0, 0);
  }
  tile[lane] = __builtin_amdgcn_exp2f(sums[0]);
  __builtin_amdgcn_s_barrier();
  for (int i = 0; i < 3; ++i) sums[1] += tile[(lane + i * i) & 63];
  out[lane] = sums;
}
extern "C" __attribute__((global)) void k_second(float* out) { out[__builtin_amdgcn_workitem_id_x()] = 1; }
"""
CUDA = """
extern "C" __global__ void k(const uint4* in, float* out, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    const uint4 words = in[i * 32 + threadIdx.x];
    sum += exp2f(__uint_as_float(words.x)) * __uint_as_float(words.y ^ words.z + words.w);
  }
  out[threadIdx.x] = sum;
}
"""
CPP = """
extern "C" float k(const float* a, const float* b, long n) {
  typedef float wide __attribute__((vector_size(32), aligned(4), may_alias));
  wide sums = {};
  for (long i = 0; i < n; i += 8) sums += *(const wide*)(a + i) * *(const wide*)(b + i);
  return sums[0] + sums[7];
}
"""
ONE = (["int", 1], ["int", 1], ["int", 1])


def entry(kind, target, artefact, launch=None, **resources):
    return Entry(
        name="k", op="toy", key="k", params={}, target=target, kind=kind, artefact=str(artefact), symbol="k",
        sha256="", resources=resources, launch=launch,
    )  # fmt: skip


def compiled(folder, text, suffix, words, out):
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    source = folder / f"k{suffix}"
    source.write_text(text)
    subprocess.run([*words, str(source), "-o", str(folder / out)], check=True)
    return folder / out


def amd(folder, target="gfx942"):
    words = "--offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -O3 -x hip"
    code = compiled(
        folder, HIP, ".hip", ["clang++-19", *words.split(), *TARGETS[target].flags], f"{target}.co"
    )
    (kernel,) = (k for k in elf.read(code.read_bytes()).metadata["amdhsa.kernels"] if k[".name"] == "k")
    launch = Launch(ONE, 64, then=Launch(ONE, 64, symbol="k_second"))
    resources = {"vgpr": kernel[".vgpr_count"], "sgpr": kernel[".sgpr_count"], "lds_bytes": 256, "spills": 0}
    return entry("hip", target, code, launch, **resources), code


@pytest.mark.parametrize("target", ["gfx942", "gfx90a"])
def test_amd(tmp_path, target):
    made, code = amd(tmp_path, target)
    if not any(shutil.which(name) for name in ("llvm-objdump", "llvm-objdump-19")):
        pytest.skip("llvm-objdump is not installed")
    report = inspect(made, code, TARGETS[target])
    first, second = report.kernels
    assert (first.name, second.name, second.loop) == ("k", "k_second", None)
    assert second.census["store"] == 1
    loop = first.loop
    assert (loop.census["matrix"], loop.census["load_16"]) == (1, 1)
    assert "exp2" not in loop.census and first.census["exp2"] == 1
    assert "barrier" not in loop.census and first.census["barrier"] == 1
    assert "lds" not in loop.census and first.census["lds"] >= 2
    assert loop.census["scalar"] >= 1 and loop.census["branch"] == 1
    assert sum(loop.census.values()) == loop.instructions < first.instructions
    turn = loop.turn
    assert turn.census["matrix"] == turn.census["load_16"] == 1
    assert (turn.matrix_loads, turn.kept) == ((0,), 0) and turn.waits[-1].left == 0
    assert turn.address and turn.cycles == 4 * (len(turn.instructions) - 1) + (
        16 if target == "gfx942" else 32
    )
    assert report.occupancy.blocks == 32 and report.occupancy.limited_by == ("waves", "blocks")


def test_nvidia(tmp_path):
    code = compiled(tmp_path, CUDA, ".cu", ["nvcc", "-cubin", "-O3", "-arch=sm_90"], "k.cubin")
    made = entry("cuda", "sm_90", code, Launch(ONE, 32), registers=16, lds_bytes=0)
    try:
        report = inspect(made, code, TARGETS["sm_90"])
    except KgenError as error:
        assert "pip install nvidia-cuda-nvdisasm" in str(error)
        pytest.skip(error.diagnostics[0].message)
    (kernel,) = report.kernels
    assert kernel.loop.census["load_16"] == 1 and kernel.loop.census["exp2"] == 1
    assert kernel.loop.census["branch"] == 1 and "store" not in kernel.loop.census
    assert kernel.census["store"] == 1
    assert report.occupancy.blocks == 32


def test_cpu(tmp_path):
    code = compiled(tmp_path, CPP, ".cpp", ["g++", "-O2", "-mavx2", "-mfma", "-shared", "-fPIC"], "k.so")
    report = inspect(entry("cpu", "cpu_avx2", code, bytes=1), code, TARGETS["cpu_avx2"])
    (kernel,) = report.kernels
    assert report.occupancy is None
    assert kernel.loop.function == "k"
    assert kernel.loop.census["fma"] == 1 and kernel.loop.census["load_16"] == 1
    assert kernel.loop.census["branch"] == 1


def test_what_cannot_be_read(tmp_path, monkeypatch):
    junk = tmp_path / "junk.so"
    junk.write_bytes(b"not an artefact")
    if shutil.which("objdump"):
        with pytest.raises(KgenError, match=r"K413.*cannot disassemble k: none of the disassemblers found"):
            disassemble(entry("cpu", "cpu_avx2", junk), junk)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KgenError, match="cannot disassemble k: no objdump found\n  hint: install binutils"):
        disassemble(entry("cpu", "cpu_avx2", junk), junk)


def test_the_command(tmp_path, monkeypatch, capsys):
    code = compiled(tmp_path, CPP, ".cpp", ["g++", "-O2", "-mavx2", "-mfma", "-shared", "-fPIC"], "k.so")
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["inspect", "k"]) == 1
    assert "nothing named 'k' is built" in capsys.readouterr().err
    libraries = tmp_path / "cache" / "libraries"
    libraries.mkdir(parents=True)
    made = entry("cpu", "cpu_avx2", code, bytes=16000)
    (libraries / "mine.json").write_text(to_json(Library("mine", (made,), ())))
    assert main(["inspect", "k"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("k\n  cpu code for cpu_avx2, 16000 bytes\n\nk: ")
    assert "\n       1 fma\n" in out
    for name in ("mine", "[j-l]*"):
        assert main(["inspect", name, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert found["name"] == "k" and found["occupancy"] is None
        assert found["kernels"][0]["loop"]["census"]["fma"] == 1
    assert main(["inspect", "mime"]) == 1
    assert "did you mean 'mine'?" in capsys.readouterr().err


def test_several_kernels_are_rows(tmp_path, monkeypatch, capsys):
    made, _ = amd(tmp_path)
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    libraries = tmp_path / "cache" / "libraries"
    libraries.mkdir(parents=True)
    both = (made, dataclasses.replace(made, name="other"))
    (libraries / "amd.json").write_text(to_json(Library("amd", both, ())))
    assert main(["inspect", "amd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:8] == [
        "kernel",
        "registers",
        "LDS",
        "spills",
        "waves",
        "loop",
        "matrix",
        "load_16",
    ]
    assert [line.split()[0] for line in lines[1:5]] == ["k", "k_second", "k", "k_second"]
    assert lines[1].split()[2:5] == ["256", "0", "32"] and lines[1].split()[6:8] == ["1", "1"]
    assert "none" in lines[2]


def test_a_turn_of_the_loop(tmp_path, monkeypatch, capsys):
    made, _ = amd(tmp_path)
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    libraries = tmp_path / "cache" / "libraries"
    libraries.mkdir(parents=True)
    (libraries / "amd.json").write_text(to_json(Library("amd", (made,), ())))
    assert main(["inspect", "amd"]) == 0
    out = capsys.readouterr().out
    assert "\n    loads under way: 0 at products, 0 when it ends; waits leave 0\n" in out
    assert main(["inspect", "amd", "--loop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "k: loads under way, address, instruction"
    (load,) = (line for line in lines if "load_dwordx4" in line)
    (product,) = (line for line in lines if "v_mfma" in line)
    assert (load.split()[0], product.split()[0]) == ("1", "0")
    assert main(["inspect", "amd", "--json"]) == 0
    turn = json.loads(capsys.readouterr().out)[0]["kernels"][0]["loop"]["turn"]
    assert turn["loads_at_products"] == [0, 0] and turn["loads_at_the_end"] == 0
    both = (made, dataclasses.replace(made, name="other"))
    (libraries / "amd.json").write_text(to_json(Library("amd", both, ())))
    assert main(["inspect", "amd", "--loop"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("kernel  turn  matrix  loads  at products  at the end  waits leave")
    assert [row.split()[0] for row in rows[1:3]] == ["k", "k"] and rows[1].split()[2:4] == ["1", "1"]


def test_a_cpu_has_no_turns(tmp_path, monkeypatch, capsys):
    code = compiled(tmp_path, CPP, ".cpp", ["g++", "-O2", "-mavx2", "-mfma", "-shared", "-fPIC"], "k.so")
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    libraries = tmp_path / "cache" / "libraries"
    libraries.mkdir(parents=True)
    (libraries / "mine.json").write_text(to_json(Library("mine", (entry("cpu", "cpu_avx2", code),), ())))
    assert main(["inspect", "k", "--loop"]) == 1
    assert "K415" in (told := capsys.readouterr().err) and "leave --loop out" in told


def test_a_chip_is_looked_at_on_its_stand_in(capsys):
    if shutil.which("clang++-19") is None:
        pytest.skip("clang++-19 is not installed")
    name = "paged_attention_gfx936_bf16_d128_b64_bshd_r4_p0"
    assert main(["inspect", "dcu", "--stand-in", "--only", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{name}: loads under way") and out.count("v_mmac_f32_16x16x16_bf16") == 32
    assert main(["inspect", "dcu", "--stand-in", "--json", "--only", name]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)
    assert kernel["loop"]["turn"]["census"]["matrix"] == 32 and kernel["loop"]["turn"]["cycles"] is None
    assert (
        main(["inspect", "amd", "--stand-in", "--only", "paged_attention_gfx942_bf16_d64_b16_*_r8_p0"]) == 1
    )
    assert "K415" in capsys.readouterr().err


def test_of_two_builds_of_a_kernel_the_newer_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "libraries").mkdir()
    for age, name in ((9, "a"), (5, "b"), (7, "c")):
        file = tmp_path / "libraries" / f"{name}.json"
        file.write_text(to_json(Library(name, (entry("cpu", "cpu_avx2", f"{name}.so"),), ())))
        os.utime(file, (1000 - age, 1000 - age))
    assert [path.name for _, path in built("k*").values()] == ["b.so"]
    assert [path.name for _, path in built("c").values()] == ["c.so"]
