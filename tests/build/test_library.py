"""Libraries that stand alone, libraries in the cache, and cleaning up under them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time

import pytest

from kgen.build.clean import clean, contents
from kgen.build.library import register_library, write_library
from kgen.diagnostics import KgenError
from kgen.manifest import Policy
from kgen.manifest_read import read_library
from tests.build.build_samples import rendered


def policy(op: str, spec_hash: str = "a" * 64) -> Policy:
    return Policy(
        op=op,
        spec_hash=spec_hash,
        params=(),
        arguments=(),
        words=(),
        facts=(),
        guards=(),
        select=(),
        layouts={},
    )


def tree(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_library_stands_alone(sample, tmp_path):
    entries = sample.build(rendered("one", 1), rendered("two", 2))
    path = write_library(tmp_path / "out" / "lib", "mine", entries, [policy("tiny")])
    clean()
    library = read_library(path)
    assert (library.name, [p.op for p in library.policies]) == ("mine", ["tiny"])
    assert {e.name: e.key for e in library.entries} == {e.name: e.key for e in entries}
    for entry in library.entries:
        assert (path.parent / entry.artefact).is_file()
    assert str(tmp_path) not in path.read_text()


def test_the_same_kernels_make_the_same_library(sample, tmp_path):
    entries = sample.build(rendered("one", 1), rendered("two", 2))
    write_library(tmp_path / "a", "mine", entries, [policy("x"), policy("tiny")])
    write_library(tmp_path / "b", "mine", entries[::-1], [policy("tiny"), policy("x")])
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_an_older_library_is_replaced_whole(sample, tmp_path):
    entries = sample.build(rendered("one", 1), rendered("two", 2))
    write_library(tmp_path / "lib", "mine", entries, [])
    write_library(tmp_path / "lib", "mine", entries[:1], [])
    assert len(read_library(tmp_path / "lib" / "library.json").entries) == 1
    assert len(list((tmp_path / "lib" / "kernels").iterdir())) == 1
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_a_folder_of_something_else_is_left_alone(sample, tmp_path):
    entries = sample.build(rendered("one", 1))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").touch()
    with pytest.raises(KgenError, match=r"K410.*precious is not a kgen library"):
        write_library(tmp_path / "precious", "mine", entries, [])
    assert [p.name for p in (tmp_path / "precious").iterdir()] == ["thesis.txt"]


def test_a_damaged_artefact_is_not_exported(sample, tmp_path):
    entries = sample.build(rendered("one", 1))
    path = sample.cache.root / entries[0].artefact
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KgenError, match=r"K411.*is not what was built"):
        write_library(tmp_path / "lib", "mine", entries, [])
    assert not (tmp_path / "lib").exists()


LOAD = """
import ctypes, hashlib, sys
from pathlib import Path
from kgen.manifest_read import read_library
path = Path(sys.argv[1])
for entry in read_library(path).entries:
    artefact = path.parent / entry.artefact
    assert hashlib.sha256(artefact.read_bytes()).hexdigest() == entry.sha256
    print(getattr(ctypes.CDLL(str(artefact)), entry.symbol)(None))
compile_half = [name for name in sys.modules if name.startswith("kgen.") and "build" in name]
assert not compile_half, compile_half
"""


def test_a_library_needs_no_compiler_and_no_home(sample, tmp_path):
    path = write_library(tmp_path / "lib", "mine", sample.build(rendered("one", 41)), [policy("tiny")])
    before = tree(tmp_path)
    (tmp_path / "no").touch()
    environment = {"PATH": "", "HOME": str(tmp_path / "no" / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("41\n", "")
    (tmp_path / "no").unlink()
    assert tree(tmp_path) == before


def test_a_warm_cache_needs_no_right_to_write(sample):
    (entry,) = sample.build(rendered("one", 1))
    before = tree(sample.cache.root)
    stamps = {p: p.stat().st_mtime_ns for p in sample.cache.root.rglob("*") if p.is_file()}
    assert sample.build(rendered("one", 1)) == (entry,)
    assert tree(sample.cache.root) == before
    assert {p: p.stat().st_mtime_ns for p in sample.cache.root.rglob("*") if p.is_file()} == stamps


def test_a_build_registers_its_kernels_where_they_lie(sample):
    entries = sample.build(rendered("one", 1))
    path = register_library("host", entries, [policy("tiny")])
    assert path == sample.cache.libraries / "host.json"
    (entry,) = read_library(path).entries
    assert (path.parent / entry.artefact).resolve() == (sample.cache.root / entries[0].artefact).resolve()


def test_registering_again_writes_nothing(sample):
    entries = sample.build(rendered("one", 1), rendered("two", 2))
    path = register_library("host", entries, [policy("tiny")])
    inode = path.stat().st_ino
    register_library("host", entries[::-1], [policy("tiny")])
    register_library("host", entries[:1], [], keep=True)
    assert path.stat().st_ino == inode


def test_keeping_adds_and_replaces_by_name(sample):
    first = sample.build(rendered("one", 1), rendered("two", 2))
    path = register_library("jit", first, [policy("tiny"), policy("other")])
    second = sample.build(rendered("two", 3), rendered("three", 3))
    register_library("jit", second, [policy("tiny")], keep=True)
    library = read_library(path)
    assert {e.name: e.key for e in library.entries} == {
        "one": first[0].key,
        "two": second[0].key,
        "three": second[1].key,
    }
    assert {p.op: p.spec_hash[0] for p in library.policies} == {"tiny": "a", "other": "a"}


@pytest.mark.parametrize("change", [{"spec_hash": "b" * 64}, {"sources": "c" * 64}])
def test_keeping_drops_kernels_of_what_has_changed(sample, change):
    path = register_library("jit", sample.build(rendered("one", 1)), [policy("tiny"), policy("other")])
    new = sample.build(rendered("two", 2))
    register_library("jit", new, [dataclasses.replace(policy("tiny"), **change)], keep=True)
    library = read_library(path)
    assert [e.name for e in library.entries] == ["two"]
    assert sorted(p.op for p in library.policies) == ["other", "tiny"]


def test_keeping_over_a_damaged_document_starts_afresh(sample):
    entries = sample.build(rendered("one", 1))
    path = register_library("jit", entries, [])
    path.write_text(path.read_text()[:40])
    register_library("jit", entries, [], keep=True)
    assert len(read_library(path).entries) == 1


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden"])
def test_a_library_name_is_a_file_name(sample, name):
    with pytest.raises(KgenError, match="K410"):
        register_library(name, (), ())


def test_contents_name_size_and_libraries(sample):
    entries = sample.build(rendered("one", 1), rendered("two", 2))
    register_library("host", entries[:1], [])
    found = {kept.key: kept for kept in contents()}
    assert set(found) == {entry.key for entry in entries}
    assert found[entries[0].key].libraries == ("host",)
    assert found[entries[1].key].libraries == ()
    folder = sample.cache.folder(entries[0].key)
    assert found[entries[0].key].size == sum(p.stat().st_size for p in folder.iterdir())


def test_cleaning_a_build_spares_what_others_share(sample):
    one, two = sample.build(rendered("one", 1), rendered("two", 2))
    register_library("host", [one, two], [])
    register_library("other", [two], [])
    assert clean(build="host").keys == (one.key,)
    assert [kept.key for kept in contents()] == [two.key]
    assert [p.name for p in sample.cache.libraries.iterdir()] == ["other.json"]


def test_cleaning_a_build_nobody_registered_names_the_choices(sample):
    register_library("host", sample.build(rendered("one", 1)), [])
    with pytest.raises(KgenError, match=r"K412.*no build 'hots'.*\n.*did you mean 'host'"):
        clean(build="hots")


def test_cleaning_by_age_counts_from_the_last_use(sample):
    old, new = sample.build(rendered("unused", 1), rendered("used", 2))
    for entry in (old, new):
        os.utime(sample.cache.folder(entry.key), (1, 1))
    sample.build(rendered("used", 2))
    assert clean(older_than=3600).keys == (old.key,)
    assert sample.cache.lookup(new.key) == new


def test_a_dry_run_removes_nothing(sample):
    (entry,) = sample.build(rendered("one", 1))
    removed = clean(dry_run=True)
    assert removed.keys == (entry.key,)
    assert removed.size > 0
    assert sample.cache.lookup(entry.key) == entry


def test_removed_kernels_leave_their_libraries(sample):
    one, two = sample.build(rendered("one", 1), rendered("two", 2))
    path = register_library("host", [one, two], [policy("tiny")])
    os.utime(sample.cache.folder(one.key), (1, 1))
    clean(older_than=time.time() - 1000)
    assert [e.name for e in read_library(path).entries] == ["two"]
    clean()
    assert not path.exists()


def test_cleaning_an_empty_cache_creates_nothing(sample):
    assert clean().keys == ()
    assert not sample.cache.root.exists()


def test_cleaning_removes_failures_and_abandoned_stages(sample):
    with pytest.raises(KgenError):
        sample.build(rendered("bad", text="#error no\n"))
    (sample.cache.staging / "build-x").mkdir()
    (sample.cache.staging / "build-x" / "owner.lock").touch()
    clean()
    assert list(sample.cache.failed.iterdir()) == []
    assert list(sample.cache.staging.iterdir()) == []


def test_documents_are_plain_json(sample):
    path = register_library("host", sample.build(rendered("one", 1)), [policy("tiny")])
    assert json.loads(path.read_text())["entries"][0]["params"] == {"arch": "cpu_generic"}
