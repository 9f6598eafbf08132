"""Tiny variants made by hand: the build room needs sources, not operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tests.build.build_samples import Sample

_CLEARED = ("CXX", "MAX_JOBS", "KGEN_COMPILER_LAUNCHER", "KGEN_CLANG", "CUDA_HOME", "ROCM_PATH")


@pytest.fixture
def sample(tmp_path, monkeypatch) -> Iterator[Sample]:
    """Makes and builds variants in a cache of its own, with the environment a build would see."""
    for name in _CLEARED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    made = Sample(tmp_path)
    yield made
    made.close()
