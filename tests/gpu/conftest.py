"""Tests on an NVIDIA GPU; skipped where there is none. KGEN_TEST_LIBRARY names a library of kernels
built elsewhere; without it they are compiled here."""

import os

import pytest

from kgen import ops

LIBRARY = os.environ.get("KGEN_TEST_LIBRARY")


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/gpu" in str(item.path):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    if LIBRARY:
        monkeypatch.setenv("KGEN_LIBRARY", LIBRARY)


@pytest.fixture(autouse=True)
def _no_report_left():
    yield
    ops.check()
