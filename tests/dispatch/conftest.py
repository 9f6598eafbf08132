"""Fixtures of the dispatch tests: the toy's compiler, and both ways to call a kernel."""

import pytest

from kgen import api
from kgen.dispatch import calls
from tests.dispatch.toy import ToyCompiler


@pytest.fixture(scope="session")
def binding():
    """The compiled binding."""
    path = api.build_binding()
    if path is None:
        pytest.skip("no headers of Python or pybind11")
    return path


@pytest.fixture(params=["pybind11", "ctypes"])
def launcher(request, monkeypatch):
    """Each test runs through the compiled binding and through ctypes."""
    if request.param == "ctypes":
        monkeypatch.setenv("KGEN_NO_PYBIND", "1")
        return None
    return request.getfixturevalue("binding")


@pytest.fixture
def compiler(launcher, tmp_path_factory, empty_cache):
    """The toy's compiler, on an empty cache."""
    return ToyCompiler(tmp_path_factory.getbasetemp() / "toys", launcher)


@pytest.fixture(scope="session", autouse=True)
def _toys(tmp_path_factory):
    (tmp_path_factory.getbasetemp() / "toys").mkdir(exist_ok=True)


@pytest.fixture
def fresh():
    """`kgen.ops` with nothing loaded, before and after."""
    calls.reset()
    yield
    calls.reset()
