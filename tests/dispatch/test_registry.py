"""Libraries: which are used, which are passed over and why, and what happens to damaged files."""

import logging
import os
import threading
from dataclasses import replace

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.manifest import ABI_VERSION
from tests.dispatch.test_launch import arguments, words_of
from tests.dispatch.toy import OPERATOR, POLICY, toy_dispatcher, with_entry, write_library


@pytest.fixture
def folder(compiler, tmp_path):
    """A folder of its own for the kernels of this test."""
    compiler.folder = tmp_path / "kernels"
    compiler.folder.mkdir()
    return compiler.folder


def names(dispatcher):
    return [kernel.entry.name for kernel in dispatcher.registry.kernels("toy", {})]


def reasons(dispatcher):
    return [skip.reason for skip in dispatcher.registry.skipped()]


def test_libraries_of_the_environment_and_of_the_cache_add_up(compiler, folder, empty_cache, monkeypatch):
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == []
    one, other, third = (compiler.make(reuse=reuse) for reuse in (1, 2, 8))
    registered = empty_cache / "libraries"
    registered.mkdir(parents=True)
    outside = with_entry(other, artefact=str(folder / other.entry.artefact))
    write_library(registered, [outside], file="host.json")
    write_library(folder, [one], monkeypatch)
    dispatcher.registry.add([third])
    assert names(dispatcher) == sorted(k.entry.name for k in (one, other, third))


def test_the_first_library_named_has_the_last_word(compiler, folder, tmp_path, monkeypatch):
    dispatcher = toy_dispatcher(compiler)
    kernel = compiler.make()
    folders = [tmp_path / "first", tmp_path / "second"]
    for place in folders:
        place.mkdir()
        write_library(place, [with_entry(kernel, symbol=place.name)])
    monkeypatch.setenv("KGEN_LIBRARY", os.pathsep.join(map(str, folders)))
    assert [k.entry.symbol for k in dispatcher.registry.kernels("toy", {})] == ["first"]


def test_a_variable_set_later_counts_and_one_that_is_unset_too(compiler, folder, monkeypatch):
    dispatcher = toy_dispatcher(compiler)
    write_library(folder, [compiler.make()], monkeypatch)
    assert len(names(dispatcher)) == 1
    monkeypatch.delenv("KGEN_LIBRARY")
    assert names(dispatcher) == []


@pytest.mark.parametrize(
    ("entry", "policy", "reason"),
    [
        ({}, {"spec_hash": "toy-spec-0"}, "built from another spec of toy (toy-spec-0; now toy-spec-1)"),
        ({"requires": ("toy1", "avx9")}, {}, "this machine lacks avx9"),
        ({"kind": "npu"}, {}, "kind 'npu' is not launched on this machine"),
    ],
)
def test_what_does_not_fit_is_passed_over_with_a_reason(compiler, folder, monkeypatch, entry, policy, reason):
    good, bad = compiler.make(reuse=1), with_entry(compiler.make(reuse=2), **entry)
    write_library(folder, [bad] if policy else [good, bad], monkeypatch, replace(POLICY, **policy))
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == ([] if policy else [good.entry.name])
    assert reasons(dispatcher) == [reason]


def test_the_cache_must_hold_kernels_of_todays_templates(compiler, folder, monkeypatch):
    """A library that was carried here is taken as it is; what the cache registered can be built again."""
    kernel, old = compiler.make(), replace(POLICY, sources="templates-0")
    path = write_library(folder, [kernel], monkeypatch, old)
    assert names(toy_dispatcher(compiler)) == [kernel.entry.name]
    libraries = folder.parent / "cache" / "libraries"
    libraries.mkdir(parents=True)
    (libraries / "on-demand.json").write_text(path.read_text())
    monkeypatch.delenv("KGEN_LIBRARY")
    monkeypatch.setenv("KGEN_CACHE_DIR", str(libraries.parent))
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == []
    assert reasons(dispatcher) == ["built from other templates or targets (templates-0; now )"]


def test_a_library_for_another_argument_block_is_passed_over(compiler, folder, monkeypatch):
    write_library(folder, [with_entry(compiler.make(), abi=ABI_VERSION + 1)], monkeypatch)
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == []
    (reason,) = reasons(dispatcher)
    assert f"argument block version {ABI_VERSION + 1}" in reason


def test_a_library_that_cannot_be_read_is_passed_over(compiler, folder, monkeypatch):
    path = write_library(folder, [compiler.make()], monkeypatch)
    path.write_text(path.read_text()[:-40])
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == []
    assert "not JSON" in reasons(dispatcher)[0]
    with pytest.raises(KgenError, match="not JSON"):
        dispatcher.registry.add_library(folder)


def test_a_kernel_is_loaded_once_and_only_when_called(compiler, folder, monkeypatch):
    kernel = compiler.make()
    write_library(folder, [kernel, with_entry(compiler.make(reuse=1), artefact="nowhere.so")], monkeypatch)
    dispatcher = toy_dispatcher(compiler)
    call = dispatcher.caller(OPERATOR)
    words_of(call, arguments())
    first = dispatcher.registry.load(kernel)
    words_of(call, arguments(rows=7))
    assert dispatcher.registry.load(kernel) is first


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # what is loaded stays whole
    path.write_bytes(data)  # as long as before


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_damaged_kernel_raises_where_building_is_off(compiler, folder, monkeypatch, how):
    monkeypatch.setenv("KGEN_JIT", "0")
    kernel = compiler.make(head_dim=8, reuse=4)
    write_library(folder, [kernel], monkeypatch)
    path = folder / kernel.entry.artefact
    damage(path) if how == "damaged" else path.unlink()
    values = arguments()
    with pytest.raises(KgenError) as caught:
        toy_dispatcher(compiler).caller(OPERATOR)(*values.values())
    assert caught.value.diagnostics[0].code == "K523"
    assert kernel.entry.artefact in str(caught.value)
    assert not values["echo"].any()


def test_a_damaged_kernel_is_built_again(compiler, folder, monkeypatch, caplog):
    kernel = compiler.make()
    write_library(folder, [kernel], monkeypatch)
    path = folder / kernel.entry.artefact
    good = path.read_bytes()
    damage(path)
    compiler.folder = folder / "again"
    compiler.folder.mkdir()
    with caplog.at_level(logging.WARNING, "kgen"):
        seen = words_of(toy_dispatcher(compiler).caller(OPERATOR), arguments())
    assert seen["num_rows"] == 3
    assert len(compiler.built) == 1
    assert "is not the file that was built; building it again" in caplog.text
    assert path.read_bytes() != good  # the damaged file is not ours to repair


def test_what_is_missing_is_built_on_demand_once(compiler):
    call = toy_dispatcher(compiler).caller(OPERATOR)
    for rows in (1, 2, 1):
        assert words_of(call, arguments(rows=rows))["num_rows"] == rows
    assert [(p["reuse"], p["partition_size"], p["arch"]) for p in compiler.built] == [(4, 0, "toy")]


def test_threads_that_miss_at_once_build_once(compiler):
    call = toy_dispatcher(compiler).caller(OPERATOR)
    seen = []
    workers = [threading.Thread(target=lambda: seen.append(words_of(call, arguments()))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [one["num_rows"] for one in seen] == [3] * 4
    assert len(compiler.built) == 1


def test_what_another_process_built_meanwhile_is_not_built_again(compiler, empty_cache):
    dispatcher = toy_dispatcher(compiler)
    assert names(dispatcher) == []
    kernel = compiler.make()
    registered = empty_cache / "libraries"
    registered.mkdir(parents=True)
    moved = with_entry(kernel, artefact=str(compiler.folder / kernel.entry.artefact))
    write_library(registered, [moved], file="other.json")
    words_of(dispatcher.caller(OPERATOR), arguments())
    assert compiler.built == []


@pytest.mark.parametrize("jit", ["0", "1"])
def test_a_combination_no_rule_allows_is_refused(compiler, monkeypatch, jit):
    monkeypatch.setenv("KGEN_JIT", jit)
    monkeypatch.setenv("PA_PARTITION_SIZE", "100")
    call = toy_dispatcher(compiler, {}).caller(OPERATOR)
    values = arguments()
    with pytest.raises(KgenError, match="a partition is a whole number of pages"):
        call(*values.values())
    assert not values["echo"].any()
    assert compiler.built == []
    monkeypatch.delenv("PA_PARTITION_SIZE")
    assert words_of(call, values)["num_parts"] == 1


MISSING = """\
error[K520]: toy: no built variant fits this call, and building on demand is off (KGEN_JIT=0)
  hint: add these lines to a build spec and run `kgen build` on it:
      variants:
        - op: toy
          axes:
            arch: [toy]
            dtype: [f16]
            head_dim: [24]
            block_size: [16]
            layout: [bshd]
            reuse: [4]
            partition_size: [1024]
  note: the call insists on partition_size = 1024 (from argument)
  note: nearest built: toy_toy_f32_f32_8_16_bshd_8_512 (dtype f32, not f16; kv_dtype f32, not f16; \
head_dim 8, not 24; reuse 8, not 4; partition_size 512, not 1024)
  note: nearest built: toy_toy_f32_f32_8_16_bshd_8_0 (dtype f32, not f16; kv_dtype f32, not f16; \
head_dim 8, not 24; reuse 8, not 4; partition_size 0, not 1024)"""


def test_the_error_for_what_is_not_built(compiler, monkeypatch):
    monkeypatch.setenv("KGEN_JIT", "0")
    call = toy_dispatcher(compiler, {"reuse": 8}, {"reuse": 8, "partition_size": 512}).caller(OPERATOR)
    values = arguments(head_dim=24, dtype=torch.float16, partition_size=1024)
    with pytest.raises(KgenError) as caught:
        call(*values.values())
    assert str(caught.value) == MISSING
    assert not values["echo"].any()
    assert compiler.built == []


def test_a_missing_binding_falls_back_to_ctypes(compiler, tmp_path, caplog):
    compiler.path = tmp_path / "none.so"
    with caplog.at_level(logging.INFO, "kgen"):
        seen = words_of(toy_dispatcher(compiler, {}).caller(OPERATOR), arguments())
    assert seen["num_rows"] == 3
