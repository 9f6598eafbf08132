"""What every test shares: a cache of its own, a clean environment, and reasons to skip.

Nothing under test may use the cache of whoever runs the tests. Kernels go to one cache for the
whole session, which the worker processes share, so that each is compiled once; a test about the
cache itself takes the `empty_cache` fixture.
"""

import os
from pathlib import Path

import pytest

# Read when the OpenMP runtime is loaded. Test processes share the cores: threads that spin while they wait
# would take them from the others, and make everything many times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

OUTSIDE = ("PA_PARTITION_SIZE", "MAX_JOBS")
"""Variables beside KGEN_* that would change what kgen does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernel-cache", metavar="DIR", help="keep compiled kernels here from run to run")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and not _has_cuda():
        pytest.skip("no CUDA device")


@pytest.fixture(scope="session")
def kernel_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of the session, one for all workers."""
    kept = request.config.getoption("--kernel-cache")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    path = Path(kept).resolve() if kept else shared / "kernel-cache"
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_environment(kernel_cache: Path) -> None:
    for name in list(os.environ):
        if name.startswith("KGEN_") or name in OUTSIDE:
            del os.environ[name]
    os.environ["KGEN_CACHE_DIR"] = str(kernel_cache)
    os.environ["KGEN_WERROR"] = "1"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that nothing was built in, for this test only."""
    path = tmp_path / "cache"
    monkeypatch.setenv("KGEN_CACHE_DIR", str(path))
    return path


@pytest.fixture(scope="session")
def host_features() -> frozenset[str]:
    """The CPU feature flags of this machine."""
    from kgen.targets.host import host_features as read

    return read()


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
