"""The hash of what kernels are made from."""

import pytest

from kgen.render.sources import sources_hash


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in (
        "templates/cpu/one.j2",
        "templates/include/a.hpp",
        "specs/targets/t.yaml",
        "specs/ops/o.yaml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr("kgen.paths.templates_dir", lambda: tmp_path / "templates")
    monkeypatch.setattr("kgen.paths.specs_dir", lambda: tmp_path / "specs")
    sources_hash.cache_clear()
    yield tmp_path
    sources_hash.cache_clear()


def hash_now() -> str:
    sources_hash.cache_clear()
    return sources_hash()


@pytest.mark.parametrize("name", ["templates/cpu/one.j2", "templates/include/a.hpp", "specs/targets/t.yaml"])
def test_every_template_header_and_target_counts(tree, name):
    before = hash_now()
    (tree / name).write_text("other")
    assert hash_now() != before
    (tree / name).write_text(name)
    assert hash_now() == before
    (tree / name).rename(tree / f"{name}.moved")
    assert hash_now() != before


def test_other_files_do_not(tree):
    before = hash_now()
    (tree / "specs/ops/o.yaml").write_text("other")
    (tree / "templates/cpu/.swap").write_text("other")
    assert hash_now() == before
