import functools

import pytest

from tests.sim import simulated


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """The test kernels by the width of a wave and more flags, each compiled once."""
    folder = tmp_path_factory.mktemp("sim")

    @functools.cache
    def compile_once(wave, *flags):
        return simulated.compile_kernels(folder / f"kernels{wave}{''.join(flags)}.so", wave, *flags)

    return compile_once


@pytest.fixture(params=[64, 32], ids=["wave64", "wave32"])
def kernels(request, compiled):
    return compiled(request.param)


@pytest.fixture
def kernels64(compiled):
    return compiled(64)
