"""Finding the model's weights without importing its package, and doing without them."""

import importlib.metadata
from pathlib import PurePosixPath

from kgen.integrations import load as model


class FakeDistribution:
    def __init__(self, folder, names):
        self.folder = folder
        self.files = [PurePosixPath(name) for name in names]

    def locate_file(self, file):
        return self.folder / file


def test_the_weights_are_found_in_the_package(tmp_path, monkeypatch):
    (tmp_path / "weights.gguf").write_bytes(b"")
    found = FakeDistribution(tmp_path, ["__init__.py", "weights.gguf"])
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert model.model_file() == tmp_path / "weights.gguf"


def test_no_package_or_no_file_is_none(tmp_path, monkeypatch):
    found = FakeDistribution(tmp_path, ["weights.gguf"])
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert model.model_file() is None

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert model.model_file() is None
