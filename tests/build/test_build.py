"""Rendered variants become loadable kernels, once, and failures tell everything."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil

import pytest

from kgen.build.cache import digest
from kgen.diagnostics import KgenError
from tests.build.build_samples import AVX2, GENERIC, HEAD, body, rendered


def test_builds_and_answers(sample):
    first, second = sample.build(rendered("one", 11), rendered("two", 22))
    assert (sample.answer(first), sample.answer(second)) == (11, 22)
    assert (first.name, first.op, first.kind, first.target) == ("one", "tiny", "cpu", "cpu_generic")
    assert first.artefact == f"kernels/{first.key}/kernel.so"
    path = sample.cache.root / first.artefact
    assert first.sha256 == digest(path)
    assert first.resources == {"bytes": path.stat().st_size}
    assert first.compile_seconds > 0


def test_results_keep_the_order_and_duplicates_of_the_input(sample):
    one, two = rendered("one", 1), rendered("two", 2)
    entries = sample.build(two, one, two)
    assert [entry.name for entry in entries] == ["two", "one", "two"]
    assert entries[0] == entries[2]


def test_second_build_compiles_nothing_and_agrees(sample, monkeypatch):
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    items = [rendered(f"k{i}", i) for i in range(3)]
    first = sample.build(*items)
    assert sample.compiles == 3
    assert sample.build(*items) == first
    assert sample.compiles == 3


def test_only_what_is_missing_is_compiled(sample, monkeypatch):
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    sample.build(rendered("a", 1))
    sample.build(rendered("a", 1), rendered("b", 2))
    assert sample.compiles == 2


def test_one_name_and_two_bodies_are_two_kernels(sample):
    (first,) = sample.build(rendered("same", 1))
    (second,) = sample.build(rendered("same", 2))
    assert first.key != second.key
    assert (sample.answer(first), sample.answer(second)) == (1, 2)


def test_targets_share_a_cache_without_mixing(sample):
    text = HEAD + (
        'extern "C" __attribute__((visibility("default"))) int which(const int64_t*) {\n'
        "#ifdef __AVX2__\n  return 2;\n#else\n  return 0;\n#endif\n}\n"
    )
    plain, wide = (rendered("which", text=text, target=target) for target in (GENERIC, AVX2))
    (first,) = sample.build(plain)
    (second,) = sample.build(wide)
    (again,) = sample.build(plain)
    assert (first.target, second.target) == ("cpu_generic", "cpu_avx2")
    assert second.requires == ("avx2", "fma")
    assert again == first
    assert sample.answer(first) == 0
    assert sample.answer(second) == 2


def test_a_header_is_part_of_the_kernel(sample):
    header = sample.include / "tiny" / "value.hpp"
    header.parent.mkdir()
    text = '#include "tiny/value.hpp"\n' + body("k", 5).replace("5", "VALUE")
    item = rendered("k", text=text, headers=["tiny/value.hpp"])
    header.write_text("#define VALUE 5\n")
    (first,) = sample.build(item)
    header.write_text("#define VALUE 6\n")
    (second,) = sample.build(item)
    assert (sample.answer(first), sample.answer(second)) == (5, 6)


def test_a_header_that_was_not_declared_cannot_be_included(sample):
    (sample.include / "secret.hpp").write_text("#define VALUE 5\n")
    item = rendered("k", text='#include "secret.hpp"\n' + body("k", 5))
    with pytest.raises(KgenError, match=r"secret\.hpp: No such file"):
        sample.build(item)


def test_a_missing_header_is_named(sample):
    with pytest.raises(KgenError, match=r"K408.*k includes gone\.hpp"):
        sample.build(rendered("k", headers=["gone.hpp"]))


def test_a_header_outside_the_include_folder_is_refused(sample):
    with pytest.raises(KgenError, match="outside templates/include"):
        sample.build(rendered("k", headers=["../../etc/passwd"]))


def test_artefacts_are_the_same_bytes_wherever_they_are_built(sample, tmp_path):
    text = body("k", 1) + "const char* where() { return __FILE__; }\n"
    item = rendered("k", text=text + "const char* (*keep)() __attribute__((used)) = where;\n")
    (first,) = sample.build(item)
    (second,) = sample.build(item, cache_dir=tmp_path / "a much longer folder" / "cache")
    assert (first.key, first.sha256) == (second.key, second.sha256)
    content = (sample.cache.root / first.artefact).read_bytes()
    assert str(tmp_path).encode() not in content


def test_every_failure_is_told_and_what_builds_is_kept(sample):
    bad = [rendered(name, text=f"{HEAD}int {name} = no_such_{name};\n") for name in ("bad1", "bad2")]
    with pytest.raises(KgenError) as caught:
        sample.build(bad[0], rendered("good", 3), bad[1])
    assert [d.code for d in caught.value.diagnostics] == ["K401", "K401"]
    text = str(caught.value)
    assert "no_such_bad1" in text
    assert "no_such_bad2" in text
    assert "command: g++" in text
    names = [path.name.rpartition("-")[0] for path in sample.cache.kernels.iterdir()]
    assert names == ["good"]


def test_variants_that_fail_alike_share_one_report(sample):
    items = [rendered(f"v{i}", text=f"{HEAD}int v{i}() {{ return missing; }}\n") for i in range(3)]
    with pytest.raises(KgenError, match="3 variants do not compile in the same way: v0, v1, v2") as caught:
        sample.build(*items)
    assert len(caught.value.diagnostics) == 1


def test_an_error_points_at_the_template_line(sample):
    text = HEAD + "\nint broken() {\n  return missing;\n}\n"
    item = rendered("k", text=text, origins=[(4, "cpu/tiny.cpp.j2", 31)])
    with pytest.raises(KgenError) as caught:
        sample.build(item)
    (fault,) = caught.value.diagnostics
    assert (fault.span.source.name, fault.span.line) == ("templates/cpu/tiny.cpp.j2", 31)
    assert "templates/cpu/tiny.cpp.j2:31 (kernel.cpp:4:10): error: 'missing'" in str(caught.value)


def test_an_error_in_a_header_names_the_header_of_the_repository(sample):
    (sample.include / "x.hpp").write_text("inline int f() { return missing; }\n")
    item = rendered("k", text='#include "x.hpp"\n' + body("k", 1), headers=["x.hpp"])
    with pytest.raises(KgenError, match=r"templates/include/x\.hpp:1:25: error"):
        sample.build(item)


def test_the_failed_source_and_log_can_be_looked_at_until_it_builds(sample):
    (sample.include / "x.hpp").write_text("#error not yet\n")
    item = rendered("k", text='#include "x.hpp"\n' + body("k", 1), headers=["x.hpp"])
    with pytest.raises(KgenError) as caught:
        sample.build(item)
    (kept,) = sample.cache.failed.iterdir()
    assert (kept / "kernel.cpp").read_text() == item.text
    assert "not yet" in (kept / "compile.log").read_text()
    assert f"rendered source: {kept / 'kernel.cpp'}" in str(caught.value)


def test_a_warning_is_an_error(sample):
    text = body("k", 1) + "static int unused() { return 1; }\n"
    with pytest.raises(KgenError, match="unused"):
        sample.build(rendered("k", text=text))


def test_a_kernel_without_its_symbol_is_refused(sample):
    with pytest.raises(KgenError, match=r"K404.*no symbol k in the artefact"):
        sample.build(rendered("k", text=body("other", 1)))
    assert not list(sample.cache.kernels.glob("*"))


def test_a_hidden_symbol_is_refused(sample):
    text = HEAD + 'extern "C" int k(const int64_t*) { return 1; }\n'
    with pytest.raises(KgenError, match=r"K404.*no symbol k"):
        sample.build(rendered("k", text=text))


def test_an_undefined_function_fails_the_build_not_the_load(sample):
    text = f"{HEAD}int elsewhere();\n" + body("k", 1).replace("? 1", "? elsewhere()")
    with pytest.raises(KgenError, match="undefined reference"):
        sample.build(rendered("k", text=text))


def test_nothing_is_left_in_staging(sample):
    with pytest.raises(KgenError):
        sample.build(rendered("good", 1), rendered("bad", text="#error no\n"))
    assert list(sample.cache.staging.iterdir()) == []


def test_a_simulated_gpu_variant_is_host_code_without_device_flags(sample):
    target = dataclasses.replace(GENERIC, name="gfx942", compiler="hip", flags=("--offload-arch=gfx942",))
    text = body("k", 4) + "#ifndef KGEN_SIM\n#error not simulated\n#endif\n"
    (entry,) = sample.build(rendered("k", text=text, target=target, simulated=True, suffix=".hip"))
    assert (entry.kind, entry.target, entry.requires) == ("sim", "sim:gfx942", ())
    assert sample.answer(entry) == 4


def test_more_than_one_graph_of_variants(sample, monkeypatch):
    monkeypatch.setattr("kgen.build.build._GRAPH_LIMIT", 2)
    entries = sample.build(*[rendered(f"k{i}", i) for i in range(5)])
    assert [sample.answer(entry) for entry in entries] == [0, 1, 2, 3, 4]


def test_awkward_folder_names(sample, tmp_path, monkeypatch):
    odd = tmp_path / "a b$c'd:e"
    odd.mkdir()
    shutil.copy(sample.compiler("cxx"), odd / "my cxx")
    monkeypatch.setenv("CXX", f'"{odd}/my cxx"')
    (entry,) = sample.build(rendered("k", 9), cache_dir=odd / "cache")
    assert (odd / "cache" / entry.artefact).is_file()


def test_a_process_with_many_open_files(sample):
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < 1200:
        pytest.skip("few files may be open here")
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        (entry,) = sample.build(rendered("k", 3))
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert sample.answer(entry) == 3
