import pytest
import torch

from kgen.bench.device import REPLAY_SECONDS, find_device, insisted, turns
from kgen.diagnostics import KgenError
from kgen.spec.load import load_catalog

CATALOG = load_catalog()


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.mark.parametrize(
    ("device", "arch", "found"),
    [
        (None, None, "cpu"),
        (None, "native", "cpu"),
        (None, "cpu_avx2", "cpu"),
        (None, "sim:sm_90", "cpu"),
        (None, "sm_90", "cuda:1"),
        ("cuda", None, "cuda:1"),
        ("cuda", "native", "cuda:1"),
        ("cuda:0", "sm_90", "cuda:0"),
        ("cpu", "sm_90", "cpu"),
    ],
)
def test_where_tensors_lie(two_gpus, device, arch, found):
    assert find_device(device, arch, CATALOG) == found


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda:2", "there is no cuda:2"), ("gpu", "'gpu' is no device"), ("meta", "do not run on 'meta'")],
)
def test_devices_that_are_not_there_are_refused(two_gpus, device, message):
    with pytest.raises(KgenError, match=message):
        find_device(device, None, CATALOG)


def test_a_machine_without_a_gpu_is_told_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(KgenError, match="torch sees no GPU here"):
        find_device(None, "sm_90", CATALOG)


def test_native_is_what_a_call_takes_by_itself():
    assert insisted("native") is None
    assert insisted("sm_90") == "sm_90"


def test_a_replay_goes_round_the_tables_until_it_is_long_enough():
    assert list(turns(2, 1 << 30)) == [0, 1] * 4
    assert list(turns(3, 100 << 30)) == [0, 1, 2]
    many = turns(64, 1000)
    assert len(many) % 64 == 0
    assert len(many) * 3e-6 >= REPLAY_SECONDS
