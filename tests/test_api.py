"""The halves joined: expand, build, build on demand, and running what was built without a compiler."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from kgen import api, ops
from kgen.diagnostics import KgenError
from kgen.dispatch import calls

PAIRS = torch.tensor([[0, 2]])


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setenv("KGEN_NO_PYBIND", "1")
    calls.reset()
    yield
    calls.reset()


def cache():
    return torch.arange(3 * 8, dtype=torch.float32).view(3, 8)


def test_expand_takes_a_name_or_a_file():
    matrix = api.expand("golden")
    assert matrix.build == "golden"
    assert len(matrix.accepted) + len(matrix.rejected) == matrix.product
    with pytest.raises(KgenError, match="there is no build named 'goldne'") as caught:
        api.expand("goldne")
    assert "did you mean 'golden'?" in str(caught.value)


def test_a_missing_kernel_is_built_with_one_log_line(empty_cache, caplog):
    with caplog.at_level(logging.INFO, "kgen"):
        for _ in range(3):
            tensor = cache()
            ops.copy_blocks(tensor, PAIRS)
            assert torch.equal(tensor[2], tensor[0])
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith("building copy_blocks_")
    assert not logging.getLogger("kgen").handlers


def test_a_kernel_built_on_demand_is_there_for_the_next_process(empty_cache, monkeypatch):
    ops.copy_blocks(cache(), PAIRS)
    calls.reset()
    monkeypatch.setenv("KGEN_JIT", "0")
    monkeypatch.setenv("PATH", "")
    ops.copy_blocks(cache(), PAIRS)
    (kernel,) = ops.dispatcher().registry.kernels("copy_blocks", {})
    assert kernel.library == api.ON_DEMAND


def test_a_damaged_kernel_of_the_cache_is_built_again(empty_cache, caplog):
    ops.copy_blocks(cache(), PAIRS)
    (kernel,) = ops.dispatcher().registry.kernels("copy_blocks", {})
    path = kernel.folder / kernel.entry.artefact
    calls.reset()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # the file that is loaded stays whole
    path.write_bytes(data)
    tensor = cache()
    ops.copy_blocks(tensor, PAIRS)
    assert torch.equal(tensor[2], tensor[0])
    assert "building it again" in caplog.text


def test_a_combination_that_is_never_generated_names_its_rule():
    params = {"arch": "cpu_generic", "dtype": "f32", "head_dim": 36}
    with pytest.raises(KgenError) as caught:
        api.jit("merge_states", params)
    (found,) = caught.value.diagnostics
    assert found.code == "K522"
    assert "a row of head_dim elements is read 8 elements at a time" in found.message
    assert "head_dim % 8 == 0" in found.span.source.line(found.span.line)


SCRIPT = """
import torch
from kgen import ops
tensor = torch.arange(24.0).view(3, 8)
ops.copy_blocks(tensor, torch.tensor([[0, 2]]))
assert torch.equal(tensor[2], tensor[0])
print(*ops.dispatcher().calls())
"""


def test_a_library_runs_without_a_compiler_or_a_cache(empty_cache, tmp_path):
    build = tmp_path / "pages.yaml"
    build.write_text("build: pages\nvariants:\n  - op: copy_blocks\n    axes: {arch: [native]}\n")
    (entry,) = api.build_matrix(api.expand(build), progress="none", out=tmp_path / "library")
    environment = {
        "PATH": "",
        "HOME": "/proc/none",
        "KGEN_CACHE_DIR": "/proc/none/cache",
        "KGEN_LIBRARY": str(tmp_path / "library"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONPATH") if name in os.environ},
    }
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == [entry.name]
