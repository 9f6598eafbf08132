"""Cases moved to a device and back; the device is the CPU here, under another name."""

from types import SimpleNamespace

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.errors import fault
from kgen.testing import device
from kgen.testing.case import Inputs
from kgen.testing.memory import NAN, STRIDED, place, same_bits


@pytest.fixture
def inputs():
    values = {"x": torch.randn(3, 4), "out": torch.zeros(3, 4)}
    return Inputs(None, {name: place(value, STRIDED, NAN) for name, value in values.items()}, {})


def adapter(run):
    return SimpleNamespace(run=run, outputs=("out",))


def test_a_call_sees_the_same_memory_and_its_writes_come_back(inputs):
    seen = []

    def call(there):
        for name in ("x", "out"):
            assert there[name].stride() == inputs[name].stride()
            assert there[name].data_ptr() != inputs[name].data_ptr()
            assert same_bits(there.placed[name].storage, inputs.placed[name].storage)
        there["out"].copy_(there["x"] * 2)
        seen.append(there)

    device.run_on("cpu", adapter(call), inputs)
    assert torch.equal(inputs["out"], inputs["x"] * 2)
    assert not inputs.placed["out"].spilled()
    assert not inputs.placed["x"].changed()


def test_a_write_past_an_output_is_seen_back_here(inputs):
    def call(there):
        there.placed["out"].storage[0] = 1.0

    device.run_on("cpu", adapter(call), inputs)
    assert inputs.placed["out"].spilled()


def test_what_is_reported_late_is_raised_once_the_writes_are_back(inputs, monkeypatch):
    def report():
        raise fault("K531", "row 1: block id 9")

    monkeypatch.setattr(ops, "check", report)
    with pytest.raises(KgenError, match="block id 9"):
        device.run_on("cpu", adapter(lambda there: there["out"].fill_(3.0)), inputs)
    assert (inputs["out"] == 3.0).all()


def test_the_gpus_here_by_target(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(device.gpu, "arch_of", lambda name: {"cuda:0": "sm_80", "cuda:1": "sm_90"}[name])
    assert device.device_for("sm_90") == "cuda:1"
    assert device.no_device("sm_80") == ""
    assert device.no_device("gfx942") == "no gfx942 device (cuda:0 is sm_80, cuda:1 is sm_90)"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.device_for("sm_90") is None
    assert device.no_device("sm_90") == "no sm_90 device"
