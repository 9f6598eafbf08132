"""Shared libraries that are no kernels, and the compile database."""

from __future__ import annotations

import importlib.util
import json
import subprocess

import pytest

from kgen.build import shared
from kgen.build.compdb import write_compile_commands
from kgen.build.shared import build_shared, python_headers, python_identity
from kgen.diagnostics import KgenError
from tests.build.build_samples import GENERIC, body, rendered

MODULE = """\
#include <pybind11/pybind11.h>
PYBIND11_MODULE(tiny_module, m) { m.def("twice", [](long x) { return 2 * x; }); }
"""


@pytest.mark.slow
def test_a_python_module_builds_once_and_imports(sample, monkeypatch):
    headers = python_headers()
    if headers is None:
        pytest.skip("no Python.h")
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    options = {
        "symbol": "PyInit_tiny_module",
        "includes": headers,
        "identity": python_identity(),
        "progress": "none",
    }
    path = build_shared(MODULE, "tiny_module", ("-O1",), **options)
    assert build_shared(MODULE, "tiny_module", ("-O1",), **options) == path
    assert sample.compiles == 1
    spec = importlib.util.spec_from_file_location("tiny_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.twice(21) == 42


def test_flags_identity_and_text_make_the_key_but_not_include_folders(sample, tmp_path):
    def path(**changes):
        options = {"symbol": "k", "progress": "none", **changes}
        return build_shared(options.pop("text", body("k", 1)), "k", options.pop("flags", ()), **options)

    first = path()
    assert path(includes=[tmp_path]) == first
    others = {path(flags=("-DX=1",)), path(identity="python 3.12"), path(text=body("k", 2))}
    assert len(others | {first}) == 4


def test_a_module_without_its_symbol_is_refused(sample):
    with pytest.raises(KgenError, match="no symbol PyInit_k"):
        build_shared(body("k", 1), "k", symbol="PyInit_k", progress="none")


def test_headers_that_are_not_there_are_none(monkeypatch, tmp_path):
    monkeypatch.setattr(shared.sysconfig, "get_path", lambda name: str(tmp_path))
    assert python_headers() is None


def test_the_compile_database_compiles_what_it_names(sample):
    (sample.include / "x.hpp").write_text("#define X 5\n")
    item = rendered("k", text='#include "x.hpp"\n' + body("k", 5).replace("5", "X"), headers=["x.hpp"])
    items = [item, rendered("a", 1)]
    sample.build(*items)
    path = sample.folder / "compile_commands.json"
    assert write_compile_commands(path, items, include_dir=sample.include)
    commands = json.loads(path.read_text())
    assert [command["file"].split("/")[-2].rpartition("-")[0] for command in commands] == ["a", "k"]
    for command in commands:
        words = [*command["arguments"][:-2], "-o", str(sample.folder / "out.so")]
        subprocess.run(words, cwd=command["directory"], check=True)


def test_the_compile_database_is_written_only_when_it_changes(sample):
    path = sample.folder / "compile_commands.json"
    one, two = rendered("one", 1), rendered("two", 2, target=GENERIC)
    assert write_compile_commands(path, [one, two], include_dir=sample.include)
    stamp = path.stat().st_mtime_ns
    assert not write_compile_commands(path, [two, one], include_dir=sample.include)
    assert path.stat().st_mtime_ns == stamp
    assert write_compile_commands(path, [one], include_dir=sample.include)
