"""Environment variables: read when asked, refused when they make no sense."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgen import env
from kgen.diagnostics import KgenError

NAMES = [variable.name for variable in env.VARIABLES]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_without_variables_every_default_holds():
    values = {variable.name: variable.read() for variable in env.VARIABLES}
    assert values == {
        "KGEN_CACHE_DIR": None,
        "KGEN_JIT": True,
        "KGEN_ARCH": None,
        "KGEN_CHECK": False,
        "KGEN_LIBRARY": (),
        "KGEN_TUNE_DIR": None,
        "KGEN_NUM_THREADS": None,
        "KGEN_COMPILER_LAUNCHER": (),
        "KGEN_NO_PYBIND": False,
        "KGEN_WERROR": False,
        "KGEN_CLANG": (),
        "PA_PARTITION_SIZE": None,
        "MAX_JOBS": None,
        "CXX": (),
        "CUDA_HOME": None,
        "ROCM_PATH": None,
        "XDG_CACHE_HOME": None,
    }


@pytest.mark.parametrize("name", NAMES)
def test_empty_and_blank_count_as_unset(monkeypatch, name):
    read = next(variable.read for variable in env.VARIABLES if variable.name == name)
    unset = read()
    for text in ("", "   "):
        monkeypatch.setenv(name, text)
        assert read() == unset


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("KGEN_JIT", "0", False),
        ("KGEN_JIT", "Off", False),
        ("KGEN_CHECK", "1", True),
        ("KGEN_CHECK", "true", True),
        ("KGEN_NO_PYBIND", "yes", True),
        ("KGEN_ARCH", "cpu_avx2", "cpu_avx2"),
        ("KGEN_CACHE_DIR", "/a/b", Path("/a/b")),
        ("KGEN_TUNE_DIR", "/a/tuned", Path("/a/tuned")),
        ("KGEN_NUM_THREADS", "3", 3),
        ("PA_PARTITION_SIZE", "256", 256),
        ("PA_PARTITION_SIZE", "0", None),
        ("PA_PARTITION_SIZE", "-1", -1),
        ("MAX_JOBS", " 8 ", 8),
        ("CXX", "g++ -m64", ("g++", "-m64")),
        ("CXX", '"/a b/g++"', ("/a b/g++",)),
        ("KGEN_COMPILER_LAUNCHER", "ccache", ("ccache",)),
        ("KGEN_CLANG", "clang++-19", ("clang++-19",)),
        ("CUDA_HOME", "/usr/local/cuda", Path("/usr/local/cuda")),
        ("ROCM_PATH", "/opt/rocm", Path("/opt/rocm")),
        ("XDG_CACHE_HOME", "/var/cache", Path("/var/cache")),
        ("XDG_CACHE_HOME", "relative", None),
        ("KGEN_LIBRARY", f"/a{os.pathsep}/b", (Path("/a"), Path("/b"))),
        ("KGEN_LIBRARY", f"/a{os.pathsep}", (Path("/a"),)),
    ],
)
def test_values(monkeypatch, name, text, value):
    read = next(variable.read for variable in env.VARIABLES if variable.name == name)
    monkeypatch.setenv(name, text)
    assert read() == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("KGEN_JIT", "maybe", "0 or 1"),
        ("KGEN_CHECK", "2", "0 or 1"),
        ("KGEN_NO_PYBIND", "-1", "0 or 1"),
        ("KGEN_NUM_THREADS", "0", "an integer from 1"),
        ("KGEN_NUM_THREADS", "²", "an integer from 1"),
        ("PA_PARTITION_SIZE", "-256", "an integer from -1"),
        ("PA_PARTITION_SIZE", "1e3", "an integer from -1"),
        ("MAX_JOBS", "9" * 5000, "an integer from 1"),
        ("CXX", 'g++ "', "a command line"),
    ],
)
def test_a_bad_value_names_variable_value_and_what_was_expected(monkeypatch, name, text, expected):
    read = next(variable.read for variable in env.VARIABLES if variable.name == name)
    monkeypatch.setenv(name, text)
    with pytest.raises(KgenError) as caught:
        read()
    (fault,) = caught.value.diagnostics
    assert fault.code == "K601"
    assert f"{name} is {text!r}, expected {expected}" in fault.message
    assert name in fault.hint


def test_relative_paths_and_home(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("KGEN_CACHE_DIR", "here")
    assert env.cache_directory() == tmp_path / "here"
    monkeypatch.setenv("KGEN_CACHE_DIR", "~/there")
    assert env.cache_directory() == Path("/home/someone/there")
    monkeypatch.setenv("KGEN_CACHE_DIR", "~nobody-of-this-name/x")
    assert env.cache_directory() == tmp_path / "~nobody-of-this-name" / "x"


def test_unknown_variables_are_told_with_the_nearest():
    environ = {"KGEN_CACHE_DIR": "/x", "KGEN_CACHEDIR": "/x", "KGEN_ZZZZZZZZZ": "1", "OTHER": "1"}
    first, second = env.unknown_variables(environ)
    assert (first.code, first.hint) == ("K602", "did you mean KGEN_CACHE_DIR?")
    assert "KGEN_ZZZZZZZZZ" in second.message
    assert "KGEN_JIT" in second.hint


def test_unknown_variables_look_at_the_environment_by_default(monkeypatch):
    monkeypatch.setenv("KGEN_JITT", "1")
    assert ["KGEN_JITT" in d.message for d in env.unknown_variables()] == [True]


def test_the_table_describes_every_variable():
    for variable in env.VARIABLES:
        assert variable.doc, variable.name
        assert variable.expected
        assert variable.default
    assert len(set(NAMES)) == len(NAMES)
