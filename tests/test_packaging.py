"""The wheel: what travels in it, and that it works where there is no repository."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = out.glob("kgen-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel in it. It sees the packages of this one, but none of its
    path files, so that an editable kgen stays out of sight."""
    folder = tmp_path_factory.mktemp("outside")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    return venv


def run(venv: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = f"{venv / 'bin'}{os.pathsep}{environ['PATH']}"
    return subprocess.run(
        [str(venv / "bin" / command[0]), *command[1:]],
        cwd=venv.parent,
        env={**environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def shipped(folder: str) -> set[str]:
    files = (p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_carries_every_template_and_spec(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "specs"):
        wanted = {f"kgen/_data/{name}" for name in shipped(folder)}
        assert len(wanted) > 5
        assert wanted <= names
    assert {"kgen/py.typed", "kgen/syntax/expr.lark"} <= names
    assert any(name.endswith("/binding.cpp") for name in names)


def test_the_wheel_carries_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kgen"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_installed_package_reads_its_own_data(installed):
    code = "from kgen import paths; print(paths.specs_dir()); print(paths.include_dir())"
    done = run(installed, "python", "-c", code)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        assert Path(line).is_relative_to(installed) and Path(line).is_dir()


def test_the_installed_command_checks_and_lists(installed):
    done = run(installed, "kgen", "check")
    assert done.returncode == 0, done.stderr
    assert " operators, " in done.stdout
    listed = run(installed, "kgen", "list", "smollm2", "--json")
    assert json.loads(listed.stdout)["product"] == 44


def test_the_installed_package_builds_and_runs_a_kernel(installed):
    code = """
        import torch
        from kgen import ops
        pages = torch.arange(3 * 4 * 8, dtype=torch.float32).view(3, 4, 8)
        before = pages.clone()
        ops.copy_blocks(pages, torch.tensor([[0, 2]]))
        assert torch.equal(pages[2], before[0]) and torch.equal(pages[:2], before[:2])
        print(ops.__file__)
    """
    done = run(installed, "python", "-c", "\n".join(line.strip() for line in code.splitlines()))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed)
