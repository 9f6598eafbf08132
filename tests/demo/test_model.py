"""Finding the model's weights without importing its package, and doing without them."""

import importlib.metadata
from pathlib import PurePosixPath

from kgen.demo import model, prompts


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


def test_prompts_without_a_tokenizer_are_seeded_and_in_range():
    first, again = prompts.encode(None, 101), prompts.encode(None, 101)
    assert first == again
    assert len(first) == len(prompts.QUESTIONS) and len(set(map(len, first))) == len(first)
    assert all(3 <= token < 101 for prompt in first for token in prompt)
