import subprocess

import torch

from kgen.bench import machine


def test_a_cpu_says_its_name_and_clocks(tmp_path, monkeypatch):
    text = (
        "processor\t: 0\nmodel name\t: A Chip\ncpu MHz\t\t: 2400.5\n\nmodel name\t: A Chip\ncpu MHz\t: 3000\n"
    )
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    assert machine.machine("cpu")["device"] == "A Chip"
    assert machine.clocks("cpu") == {"core_mhz": [2400.5, 3000.0]}
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "absent")
    assert machine.clocks("cpu") == {}


def test_versions_name_the_compiler_of_the_kernels():
    found = machine.versions("cpu")
    assert found["torch"] == torch.__version__
    assert found["compiler"] == machine.compiler_of("cpu") != ""
    assert "\n" not in found["compiler"]


def test_the_clocks_of_a_gpu_are_asked_for_where_that_can_be(monkeypatch):
    def answer(words, **_):
        assert "--id=3" in words
        return subprocess.CompletedProcess(words, 0, "580.1, 1980 MHz, 3201 MHz, 1980 MHz, 41, 120.5 W\n", "")

    monkeypatch.setattr(subprocess, "run", answer)
    found = machine.clocks("cuda:3")
    assert (found["driver_version"], found["clocks.sm"], found["power.draw"]) == (
        "580.1",
        "1980 MHz",
        "120.5 W",
    )

    def absent(words, **_):
        raise FileNotFoundError(words[0])

    monkeypatch.setattr(subprocess, "run", absent)
    assert machine.clocks("cuda:0") == {}
