"""The shipped catalog and builds, and a folder of templates that stands in for the shipped one."""

from dataclasses import replace

import pytest

from kgen import paths
from kgen.paths import specs_dir
from kgen.spec.load import load_build, load_catalog
from kgen.variants.matrix import expand, make_variant


@pytest.fixture(scope="session")
def catalog():
    return load_catalog()


@pytest.fixture(scope="session")
def accepted(catalog):
    """The accepted variants of a shipped build."""

    def of(name, native="cpu_avx2"):
        return expand(load_build(specs_dir() / "builds" / f"{name}.yaml", catalog), catalog, native).accepted

    return of


@pytest.fixture
def attention(catalog):
    """A paged_attention variant; keywords replace its parameters."""

    def make(**changes):
        params = {
            "arch": "cpu_avx2",
            "dtype": "bf16",
            "head_dim": 128,
            "block_size": 16,
            "layout": "bshd",
            "reuse_kv_times": 4,
            "partition_size": 512,
        }
        return make_variant(catalog.ops["paged_attention"], {**params, **changes}, catalog)

    return make


@pytest.fixture
def templates(tmp_path, monkeypatch):
    """Templates by path instead of the shipped ones; returns a function that writes them."""
    root = tmp_path / "templates"
    (root / "include").mkdir(parents=True)
    monkeypatch.setattr(paths, "templates_dir", lambda: root)
    monkeypatch.setattr(paths, "include_dir", lambda: root / "include")

    def write(**texts):
        for name, text in texts.items():
            (root / f"{name}.j2").write_text(text)

    return write


@pytest.fixture
def with_template(attention):
    """A variant whose template is `main.j2`."""
    variant = attention()
    return replace(variant, op=replace(variant.op, templates={"cpu": "main.j2"}))
