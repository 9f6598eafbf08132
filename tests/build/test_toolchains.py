"""Finding compilers, telling one from another, and what to say where there is none."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from pathlib import Path

import pytest

from kgen.build import probe, toolchains
from kgen.diagnostics import KgenError
from kgen.manifest import Launch
from tests.build.build_samples import GENERIC, GFX942, SM_90, rendered

HIP = """\
#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
GLOBAL void NAME(float* x, int n) {
  SHARED float tile[64];
  int i = __builtin_amdgcn_workitem_id_x();
  tile[i & 63] = x[i];
  __builtin_amdgcn_s_barrier();
  if (i < n) x[i] = tile[63 - (i & 63)] * 2.0f;
}
"""
CUDA = """\
extern "C" __global__ void NAME(float* x, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i & 63] = x[i];
  __syncthreads();
  if (i < n) x[i] = tile[63 - (i & 63)] * 2.0f;
}
"""
SPILL = """\
extern "C" __global__ void __launch_bounds__(1024, 2) NAME(float* x) {
  float v[200];
  for (int i = 0; i < 200; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  float s = 0.0f;
  for (int i = 0; i < 200; ++i) s += v[i] * v[199 - i] + v[(i * 7) % 200] / (s + v[i]);
  for (int i = 0; i < 200; ++i) x[i * 1024 + threadIdx.x] = v[i] + s;
}
"""


def need(target) -> None:
    try:
        toolchains.for_target(target, False)
    except KgenError as error:
        pytest.skip(error.diagnostics[0].message)


def gpu(name, text, target, suffix, **changes):
    return rendered(name, text=text.replace("NAME", name), target=target, suffix=suffix, **changes)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_host_compilers_build(sample, monkeypatch, compiler):
    if probe.find(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("CXX", compiler)
    (entry,) = sample.build(rendered("k", 6))
    assert sample.answer(entry) == 6


def test_amd_code_objects_build_and_tell_their_registers(sample, tmp_path):
    need(GFX942)
    item = gpu("k", HIP, GFX942, ".hip", lets={"lds_bytes": 256})
    (entry,) = sample.build(item)
    assert (entry.kind, entry.target, Path(entry.artefact).suffix) == ("hip", "gfx942", ".co")
    assert entry.resources["lds_bytes"] == 256
    assert entry.resources["wave"] == 64
    assert entry.resources["spills"] == 0
    assert 0 < entry.resources["vgpr"] <= 512
    (again,) = sample.build(item, cache_dir=tmp_path / "elsewhere")
    assert again.sha256 == entry.sha256


def test_cubins_build_and_tell_their_registers(sample, tmp_path):
    need(SM_90)
    item = gpu("k", CUDA, SM_90, ".cu", lets={"lds_bytes": 256})
    (entry,) = sample.build(item)
    assert (entry.kind, entry.target, Path(entry.artefact).suffix) == ("cuda", "sm_90", ".cubin")
    assert entry.resources["lds_bytes"] == 256
    assert entry.resources["spills"] == 0
    assert 0 < entry.resources["registers"] <= 255
    (again,) = sample.build(item, cache_dir=tmp_path / "elsewhere")
    assert again.sha256 == entry.sha256


def test_predicted_shared_memory_must_be_what_is_compiled(sample):
    need(GFX942)
    for predicted in (252, 260):
        with pytest.raises(KgenError, match=f"K405.*256 bytes of shared memory compiled, {predicted}"):
            sample.build(gpu("k", HIP, GFX942, ".hip", lets={"lds_bytes": predicted}))


def test_dynamic_shared_memory_counts(sample):
    need(GFX942)
    launch = Launch(grid=(["int", 1], ["int", 1], ["int", 1]), block=64, dynamic_lds=1024)
    (entry,) = sample.build(gpu("k", HIP, GFX942, ".hip", lets={"lds_bytes": 1280}, launch=launch))
    assert entry.launch == launch
    assert sample.cache.lookup(entry.key) == entry


def test_a_spill_is_an_error_unless_allowed(sample):
    need(SM_90)
    with pytest.raises(KgenError, match=r"K405.*k: the compiler spilled \d+ registers.*\n.*allow_spill"):
        sample.build(gpu("k", SPILL, SM_90, ".cu"))
    (entry,) = sample.build(gpu("k", SPILL, SM_90, ".cu", lets={"allow_spill": 10_000}))
    spills = entry.resources["spills"]
    assert spills > 1
    (entry,) = sample.build(gpu("k", SPILL, SM_90, ".cu", lets={"allow_spill": spills}))
    with pytest.raises(KgenError, match=rf"K405.*spilled {spills} registers"):
        sample.build(gpu("k", SPILL, SM_90, ".cu", lets={"allow_spill": spills - 1}))


def test_kernels_of_a_chain_must_all_be_there(sample):
    need(SM_90)
    one = (["int", 1], ["int", 1], ["int", 1])
    launch = Launch(grid=one, block=64, then=Launch(grid=one, block=32, symbol="k_second"))
    with pytest.raises(KgenError, match="no symbol k_second in the artefact"):
        sample.build(gpu("k", CUDA, SM_90, ".cu", launch=launch))
    text = CUDA.replace("NAME", "k") + CUDA.replace("NAME", "k_second").replace("[64]", "[128]")
    (entry,) = sample.build(gpu("k", text, SM_90, ".cu", launch=launch))
    assert entry.resources["lds_bytes"] == 512


def test_cuda_errors_are_mapped_to_the_template(sample):
    need(SM_90)
    text = 'extern "C" __global__ void k(float* x) {\n  x[0] = missing;\n}\n'
    item = gpu("k", text, SM_90, ".cu", origins=[(2, "gpu/tiny.hip.j2", 17)])
    with pytest.raises(KgenError) as caught:
        sample.build(item)
    assert 'templates/gpu/tiny.hip.j2:17 (kernel.cu(2)): error: identifier "missing"' in str(caught.value)
    assert caught.value.diagnostics[0].span.line == 17


def test_a_target_no_compiler_knows_says_who_refused(sample):
    need(GFX942)
    target = dataclasses.replace(GFX942, name="gfx936x", flags=("--offload-arch=gfx936x",))
    with pytest.raises(KgenError) as caught:
        sample.build(gpu("k", HIP, target, ".hip"))
    text = str(caught.value)
    assert "K403" in text
    assert "KGEN_CLANG" in text
    assert "gfx936x" in caught.value.diagnostics[0].notes[0]


def test_one_compiler_by_two_paths_is_one(sample, monkeypatch):
    (entry,) = sample.build(rendered("k", 1))
    link = sample.folder / "opt" / "my-g++"
    link.parent.mkdir()
    link.symlink_to(probe.find("g++"))
    monkeypatch.setenv("CXX", str(link))
    assert sample.build(rendered("k", 1)) == (entry,)
    script = program(sample.folder / "wrap" / "c++", 'exec g++ "$@"')
    monkeypatch.setenv("CXX", str(script))
    assert sample.build(rendered("k", 1)) == (entry,)


def test_another_version_or_machine_is_another_compiler(tmp_path, monkeypatch):
    identities = set()
    for version, machine in (("1.0", "x86_64"), ("1.1", "x86_64"), ("1.0", "aarch64")):
        text = f'case "$1" in --version) echo "c++ (Some) {version}";; *) echo {machine};; esac'
        path = program(tmp_path / f"{version}-{machine}" / "c++", text)
        identities.add(probe.identity((str(path),)))
    assert len(identities) == 3


def test_an_upgraded_compiler_is_asked_again(tmp_path):
    path = program(tmp_path / "c++", 'echo "c++ (Some) 1.0"')
    before = probe.identity((str(path),))
    program(path, 'echo "c++ (Some) 1.10"')
    assert probe.identity((str(path),)) != before


def test_variables_that_steer_a_compiler_are_part_of_it(monkeypatch):
    before = probe.identity(("g++",))
    monkeypatch.setenv("CPATH", "/opt/include")
    assert probe.identity(("g++",)) != before


def test_options_in_cxx_are_part_of_it(sample, monkeypatch):
    (plain,) = sample.build(rendered("k", 1))
    monkeypatch.setenv("CXX", "g++ -fno-inline")
    (other,) = sample.build(rendered("k", 1))
    assert plain.key != other.key


def test_the_environment_is_read_at_each_build(sample, monkeypatch):
    sample.build(rendered("a", 1))
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    sample.build(rendered("b", 1))
    assert sample.compiles == 1
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(KgenError, match="CXX names no-such-compiler"):
        sample.build(rendered("c", 1))


def test_no_compiler_says_what_to_install(sample, monkeypatch):
    monkeypatch.setenv("PATH", str(sample.folder))
    with pytest.raises(KgenError, match=r"K402.*no C\+\+ compiler found.*\n.*install g\+\+.*or set CXX"):
        sample.build(rendered("k", 1))


@pytest.mark.parametrize(
    ("target", "variable", "value", "words"),
    [
        (GFX942, "KGEN_CLANG", "/none/clang++", r"KGEN_CLANG names /none/clang\+\+"),
        (SM_90, "CUDA_HOME", "/none", "CUDA_HOME is /none, which has no bin/nvcc"),
        (GENERIC, "CXX", "/none/g++", r"CXX names /none/g\+\+"),
    ],
)
def test_a_variable_that_points_nowhere_is_named(sample, monkeypatch, target, variable, value, words):
    monkeypatch.setenv(variable, value)
    with pytest.raises(KgenError, match=f"K402.*{words}(.|\n)*correct {variable} or unset it"):
        sample.build(rendered("k", 1, target=target))


def test_no_gpu_compiler_says_what_to_set(sample, monkeypatch):
    monkeypatch.setenv("PATH", str(sample.folder))
    monkeypatch.setattr(probe, "find", lambda name: None)
    for target, words in ((GFX942, "KGEN_CLANG(.|\n)*ROCM_PATH"), (SM_90, "CUDA_HOME")):
        with pytest.raises(KgenError, match=f"K402(.|\n)*hint.*{words}"):
            sample.build(rendered("k", 1, target=target))


def test_rocm_path_is_searched_first(sample, monkeypatch):
    log = sample.folder / "called"
    root = sample.folder / "rocm"
    program(root / "llvm/bin/clang++", f'echo "$@" >> {log}\ncase "$1" in --version) echo mine;; esac')
    monkeypatch.setenv("ROCM_PATH", str(root))
    chain = toolchains.for_target(GFX942, False)
    assert chain.compiler == (str(root / "llvm/bin/clang++"),)
    assert "--offload-arch=gfx942" in log.read_text()


def test_nvcc_of_cuda_home_is_used(sample, monkeypatch):
    root = sample.folder / "cuda"
    program(root / "bin/nvcc", "echo release 99")
    monkeypatch.setenv("CUDA_HOME", str(root))
    chain = toolchains.for_target(SM_90, False)
    assert chain.compiler == (str(root / "bin/nvcc"),)
    assert "release 99" in chain.identity


def test_a_launcher_runs_the_compiler_and_is_not_in_the_key(sample, monkeypatch):
    (plain,) = sample.build(rendered("k", 1))
    seen = sample.folder / "seen"
    launcher = program(sample.folder / "launch", f'echo "$1" >> {seen}\nexec "$@"')
    monkeypatch.setenv("KGEN_COMPILER_LAUNCHER", str(launcher))
    assert sample.build(rendered("k", 1)) == (plain,)
    assert not seen.exists()
    sample.build(rendered("other", 1))
    assert seen.read_text() == "g++\n"


def test_no_path_and_no_time_in_what_a_key_is_made_of():
    for target in (GENERIC, GFX942, SM_90):
        try:
            chain = toolchains.for_target(target, False)
        except KgenError:
            continue
        text = " ".join((chain.identity, *chain.words("include")))
        assert os.sep + "usr" not in text
        assert str(Path.home()) not in text


def test_no_ninja_says_how_to_get_it(sample, monkeypatch):
    tools = sample.folder / "tools"
    tools.mkdir()
    (tools / "g++").symlink_to(probe.find("g++"))
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setitem(sys.modules, "ninja", None)
    with pytest.raises(KgenError, match=r"K402.*no ninja found\n.*pip install ninja"):
        sample.build(rendered("k", 1))
    assert list(sample.cache.staging.iterdir()) == []


def test_a_ninja_that_fails_is_told_with_what_it_said(sample, monkeypatch):
    broken = program(sample.folder / "ninja", "echo cannot go on; exit 3")
    monkeypatch.setattr("kgen.build.graph.find_ninja", lambda: str(broken))
    with pytest.raises(KgenError, match=r"K409.*status 3 after 0 of 1 compiles\n.*cannot go on"):
        sample.build(rendered("k", 1))
