"""The README tells the truth: its example runs, and its tables name what there is."""

import re
import tomllib
from pathlib import Path

import pytest
import torch

from kgen import reference
from kgen.cli import COMMANDS
from kgen.env import VARIABLES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_examples_compute_attention():
    decode, extend = blocks("python")
    names: dict[str, torch.Tensor] = {}
    exec(compile(decode, "README.md", "exec"), names)
    exact, lse = reference.attention(names["q"], names["key"], names["value"], 128**-0.5, mask=None)
    torch.testing.assert_close(names["out"].double(), exact, rtol=2e-2, atol=2e-3)
    torch.testing.assert_close(names["lse"].double(), lse.double(), rtol=1e-3, atol=1e-3)

    exec(compile(extend, "README.md", "exec"), names)
    keys, values = (torch.cat([names[name], names[f"new_{name}"]]) for name in ("key", "value"))
    exact, _ = reference.attention(names["new_q"], keys, values, 128**-0.5)
    torch.testing.assert_close(names["new_out"].double(), exact, rtol=2e-2, atol=2e-3)


def test_the_example_of_a_build_expands(tmp_path, capsys):
    from kgen.cli import main

    build = next(block for block in blocks("yaml") if block.startswith("build:"))
    spec = tmp_path / "mine.yaml"
    spec.write_text(build)
    assert main(["check", str(spec)]) == 0
    assert "24 accepted + 0 rejected = 24" in capsys.readouterr().out


def test_it_opens_with_the_two_commands():
    commands = [line.split("#")[0].split() for line in README.splitlines() if line.startswith("    make ")]
    assert commands[:2] == [["make", "run"], ["make", "test"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_table(command):
    assert re.search(rf"^\| `kgen {command}\b", README, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [row.name for row in VARIABLES])
def test_every_variable_is_named(name):
    assert f"`{name}`" in README or f"${name}" in README


def test_every_link_and_folder_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
    for folder in re.findall(r"^    ([a-z]+/) ", README, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_every_dependency_is_explained_and_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = {
        line.partition("==")[0]
        for line in (ROOT / "requirements-dev.lock").read_text().splitlines()
        if "==" in line
    }
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["demo"],
        *project["optional-dependencies"]["dev"],
    ]
    names = [re.split(r"[<>=]", each)[0].strip().lower() for each in wanted]
    assert set(names) <= lock
    for each in project["dependencies"]:
        assert re.search(rf"^\| {re.split('[<>=]', each)[0]}\b", README, flags=re.MULTILINE), each
