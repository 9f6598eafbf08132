"""Sources checked without making kernels, for chips that no compiler here knows too."""

import json
from pathlib import Path

import pytest

from kgen.build import toolchains
from kgen.build.syntax import for_syntax
from kgen.cli import main
from kgen.diagnostics import KgenError
from kgen.spec.load import load_catalog
from tests.build.build_samples import GENERIC, rendered

TARGETS = load_catalog().targets
KERNEL = """\
typedef float float4 __attribute__((ext_vector_type(4)));
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
#if defined(KGEN_SYNTAX_ONLY)
__attribute__((device)) float4 mmac(half4 a, half4 b, float4 c);
#else
__attribute__((device)) inline float4 mmac(half4 a, half4 b, float4 c) {
  return __builtin_hcu_mmac_f32_16x16x16_f16(a, b, c);
}
#endif
extern "C" __attribute__((global)) void k(half4* a, float4* c) { c[0] = mmac(a[0], a[1], c[0]); }
"""
MFMA = KERNEL.replace(
    "= mmac(a[0], a[1], c[0])", "= __builtin_amdgcn_mfma_f32_16x16x16f16(a[0], a[1], c[0], 0, 0, 0)"
)
DCUS = ["gfx928", "gfx936", "gfx938"]


def need_clang() -> None:
    try:
        toolchains.for_target(TARGETS["gfx942"], False)
    except KgenError as error:
        pytest.skip(error.diagnostics[0].message)


def need_no_dtk(target) -> None:
    need_clang()
    try:
        toolchains.for_target(target, False)
    except KgenError:
        return
    pytest.skip(f"a compiler here knows {target.name}")


def gpu(text, target, **changes):
    return rendered("k", text=text, target=TARGETS[target], suffix=".hip", **changes)


@pytest.mark.parametrize("name", DCUS)
def test_a_dcu_without_a_dtk_says_what_is_missing(sample, name):
    need_no_dtk(TARGETS[name])
    with pytest.raises(KgenError) as caught:
        sample.build(gpu(KERNEL, name))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "K403"
    assert diagnostic.message == f"no compiler for {name}: each one found refuses it"
    assert diagnostic.hint.startswith(
        f"{name} needs hipcc of the DTK, found through ROCM_PATH or in /opt/dtk"
    )
    assert f"sim:{name} runs the same kernels" in diagnostic.notes[-1]
    assert "--syntax-only" in diagnostic.notes[-1]


@pytest.mark.parametrize("name", DCUS)
def test_a_dcu_is_checked_on_its_stand_in(sample, name):
    need_no_dtk(TARGETS[name])
    (entry,) = sample.build(gpu(KERNEL, name), syntax_only=True)
    assert (entry.kind, entry.target, Path(entry.artefact).suffix) == ("syntax", name, ".bc")
    assert entry.resources["bytes"] > 0
    assert sample.build(gpu(KERNEL, name), syntax_only=True) == (entry,)


@pytest.mark.parametrize("name", DCUS)
def test_an_mfma_for_a_dcu_is_refused(sample, name):
    need_no_dtk(TARGETS[name])
    with pytest.raises(KgenError, match=r"K401[\s\S]*mfma_f32_16x16x16f16' needs target feature mai-insts"):
        sample.build(gpu(MFMA, name), syntax_only=True)


def test_a_chip_that_is_known_is_checked_for_itself(sample):
    need_clang()
    (entry,) = sample.build(gpu(MFMA.replace("defined(KGEN_SYNTAX_ONLY)", "1"), "gfx942"), syntax_only=True)
    assert entry.target == "gfx942"
    with pytest.raises(KgenError, match="use of undeclared identifier '__builtin_hcu_mmac"):
        sample.build(gpu(KERNEL, "gfx942"), syntax_only=True)


def test_faults_are_told_at_the_template(sample):
    item = rendered("k", text="int f() {\n  return missing;\n}\n", origins=[(2, "cpu/tiny.cpp.j2", 17)])
    with pytest.raises(KgenError) as caught:
        sample.build(item, syntax_only=True)
    assert caught.value.diagnostics[0].span.line == 17
    assert "'missing' was not declared" in str(caught.value)


def test_a_check_and_a_kernel_are_kept_apart(sample):
    (checked,) = sample.build(rendered("k", 5), syntax_only=True)
    (built,) = sample.build(rendered("k", 5))
    assert checked.key != built.key
    assert (checked.kind, Path(checked.artefact).suffix) == ("syntax", ".s")
    assert sample.answer(built) == 5


def test_no_machine_code_and_no_linking():
    check, whole = for_syntax(GENERIC, False), toolchains.for_target(GENERIC, False)
    assert set(whole.flags) - set(check.flags) >= {"-shared", "-O3"}
    assert not [flag for flag in check.flags if flag.startswith("-Wl,")]
    assert for_syntax(GENERIC, False).identity == whole.identity


def test_a_target_without_a_stand_in_still_needs_its_compiler(monkeypatch):
    monkeypatch.setenv("KGEN_CLANG", "no-such-clang")
    with pytest.raises(KgenError, match=r"K402.*KGEN_CLANG names no-such-clang"):
        for_syntax(TARGETS["gfx942"], False)


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    small = tmp_path / "small.yaml"
    small.write_text("build: small\nvariants:\n  - op: copy_blocks\n    axes: {arch: [cpu_generic]}\n")
    assert main(["build", str(small), "--syntax-only", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["build"], found["checked"], found["compiled"]) == ("small", 1, 1)
    assert main(["build", str(small), "--syntax-only"]) == 0
    assert "small: 1 sources are sound (1 known to be, " in capsys.readouterr().out
    assert not (tmp_path / "cache" / "libraries").exists()


def test_shipped_gpu_sources_are_sound_for_every_dcu(sample):
    need_clang()
    from kgen.render.emit import render
    from kgen.variants.matrix import make_variant

    catalog = load_catalog()
    items = [
        render(
            make_variant(catalog.op("merge_states"), {"arch": n, "dtype": "bf16", "head_dim": 64}, catalog)
        )
        for n in DCUS
    ]
    entries = sample.build(*items, syntax_only=True, include_dir=None)
    assert [entry.kind for entry in entries] == ["syntax"] * 3
