"""Where data and cache are found, without making anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kgen import paths
from kgen.diagnostics import KgenError


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("KGEN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_checkout_finds_its_data():
    assert (paths.specs_dir() / "layouts.yaml").is_file()
    assert paths.templates_dir().name == "templates"
    assert paths.include_dir() == paths.templates_dir() / "include"


def test_a_wheel_finds_its_data(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "kgen")
    assert paths.specs_dir() == tmp_path / "specs"
    (tmp_path / "kgen" / "_data" / "specs").mkdir(parents=True)
    assert paths.specs_dir() == tmp_path / "kgen" / "_data" / "specs"


def test_the_cache_follows_its_variables_at_each_call(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert paths.cache_dir() == Path("/home/someone/.cache/kgen")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert paths.cache_dir() == Path("/var/cache/kgen")
    monkeypatch.setenv("KGEN_CACHE_DIR", "/fast/kernels")
    assert paths.cache_dir() == Path("/fast/kernels")


def test_no_home_is_an_error_with_a_way_out(monkeypatch):
    def nobody():
        raise RuntimeError

    monkeypatch.setattr(paths.Path, "home", nobody)
    with pytest.raises(KgenError, match=r"K603(.|\n)*KGEN_CACHE_DIR"):
        paths.cache_dir()


def test_importing_and_asking_makes_no_folder(tmp_path):
    code = "from kgen import paths; print(paths.cache_dir(), paths.specs_dir(), paths.include_dir())"
    environment = {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path / ".cache" / "kgen"))
    assert list(tmp_path.iterdir()) == []
