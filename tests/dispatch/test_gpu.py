"""Launchers: what they put into the block and what they refuse. Driver and device are stood in for."""

import contextlib
import ctypes
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kgen import api, env
from kgen.diagnostics import KgenError
from kgen.dispatch import gpu
from kgen.dispatch.plan import places
from kgen.manifest import ERRORS, HEADER, Launch

ERROR = HEADER.index("error")
ERROR_WORD, STREAM, WORKSPACE = 0x7000, 0x55, 0x10000


class FakeDriver:
    """Keeps what was launched; refuses when told to."""

    def __init__(self):
        self.launched, self.refusal = [], None

    def load(self, image, symbol, device, dynamic_lds=0):
        return (image, symbol, device, dynamic_lds)

    def on(self, device):
        return contextlib.nullcontext()

    def launch(self, kernel, grid, block, dynamic_lds, words, stream):
        if self.refusal:
            raise self.refusal
        self.launched.append((kernel, grid, block, dynamic_lds, list(words), stream))


@pytest.fixture(scope="module")
def policy():
    return api.compiler().policy("paged_attention")


@pytest.fixture
def driver(monkeypatch):
    fake = FakeDriver()
    monkeypatch.setattr(gpu, "driver", lambda: fake)
    monkeypatch.setattr(gpu, "stream_of", lambda device: STREAM + device)
    return fake


class FakeErrors(gpu.ErrorWords):
    """Error words that need no device."""

    told = (0, 0, 0, 0)

    def address(self, op, device):
        return ERROR_WORD

    def take(self, op, device):
        return self.told


@pytest.fixture
def launcher(policy, driver):
    step = gpu.Step(driver.load(b"", "k", 1), (4, 5, 6), 256, 0)
    last = replace(step, kernel=driver.load(b"", "k_combine", 1), block=64)
    place = places(policy, "pointer")["tmp_out"]
    workspaces = SimpleNamespace(address=lambda size, device, stream: WORKSPACE + stream)
    return gpu.Launcher(policy, 1, (step, last), workspaces, FakeErrors(), 4096, ((place, 256),))


def call(launcher, **values):
    """Call like a CPU kernel; the answer, the host's error word and the block as it was passed."""
    error = (ctypes.c_int64 * 4)()
    block = (ctypes.c_int64 * len(launcher.policy.words))()
    block[ERROR] = ctypes.addressof(error)
    names = [word.name for word in launcher.policy.words]
    for name, value in values.items():
        block[names.index(name)] = value
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(launcher.address)
    return entry(ctypes.addressof(block)), tuple(error)


def test_every_kernel_of_a_plan_starts_on_the_current_stream(launcher, driver, policy):
    assert call(launcher, q=0x100, num_seqs=3) == (0, (0, 0, 0, 0))
    names = [word.name for word in policy.words]
    assert [entry[:4] for entry in driver.launched] == [
        ((b"", "k", 1, 0), (4, 5, 6), 256, 0),
        ((b"", "k_combine", 1, 0), (4, 5, 6), 64, 0),
    ]
    for *_, words, stream in driver.launched:
        assert stream == STREAM + 1
        assert words[ERROR] == ERROR_WORD
        assert words[names.index("tmp_out")] == WORKSPACE + stream + 256
        assert (words[names.index("q")], words[names.index("num_seqs")]) == (0x100, 3)


def test_a_pointer_off_its_16_bytes_starts_nothing(launcher, driver, policy):
    place = [word.name for word in policy.words].index("k_cache")
    assert call(launcher, k_cache=0x108) == (ERRORS["alignment"], (ERRORS["alignment"], place, 16, 0x108))
    assert call(launcher, seq_lens=0x104, lse=0x10C)[0] == 0  # read one element at a time
    assert len(driver.launched) == 2


def test_what_the_driver_refuses_is_kept_for_the_caller(launcher, driver):
    driver.refusal = gpu.fault("K526", "no")
    assert call(launcher)[0] == gpu.RAISED
    assert launcher.raised is driver.refusal


def test_a_checked_call_answers_with_the_devices_error_word(launcher, monkeypatch):
    launcher.errors.told = (3, 1, 100, -5)
    assert call(launcher)[0] == 0
    monkeypatch.setattr(env, "check", lambda: True)
    monkeypatch.setattr(gpu.torch.cuda, "is_current_stream_capturing", lambda: False)
    assert call(launcher) == (3, (3, 1, 100, -5))


def test_strides_that_leave_16_bytes_are_refused(policy):
    names = [word.name for word in policy.words]
    words = [0] * len(names)
    for name in ("q_stride_seq", "q_stride_head", "k_cache_stride_block", "v_cache_stride_token"):
        words[names.index(name)] = 64
    words[names.index("k_cache_stride_dim")] = 1  # the innermost axis
    words[names.index("lse_stride_seq")] = 3
    facts = {"dtype": "f16", "kv_dtype": "f16"}
    gpu.check_strides(policy, facts, words)
    words[names.index("v_cache_stride_token")] = 68
    with pytest.raises(KgenError, match="v_cache has a stride of 68 elements along token"):
        gpu.check_strides(policy, facts, words)
    gpu.check_strides(policy, {"dtype": "f16", "kv_dtype": "f32"}, words)  # 272 bytes


def test_grids_come_from_the_facts_and_stay_within_the_device(driver):
    last = Launch((["name", "heads"], ["int", 1], ["int", 1]), 64, symbol="k_combine")
    launch = Launch((["name", "heads"], ["name", "seqs"], ["int", 1]), 256, 1024, then=last)
    built = SimpleNamespace(entry=SimpleNamespace(name="k", symbol="k", launch=launch))
    found = gpu.steps(built, b"image", {"heads": 8, "seqs": 65535}, 2)
    assert [(step.kernel, step.grid, step.block) for step in found] == [
        ((b"image", "k", 2, 1024), (8, 65535, 1), 256),
        ((b"image", "k_combine", 2, 0), (8, 1, 1), 64),
    ]
    with pytest.raises(KgenError, match="k needs 65536 blocks along y; the device allows 65535"):
        gpu.steps(built, b"image", {"heads": 8, "seqs": 65536}, 2)


@pytest.mark.parametrize(
    ("hip", "properties", "arch"),
    [
        (None, SimpleNamespace(), "sm_90"),
        ("6.2", SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-"), "gfx942"),
        ("5.4", SimpleNamespace(gcnArchName="gfx936"), "gfx936"),
    ],
)
def test_the_target_of_a_device(monkeypatch, hip, properties, arch):
    monkeypatch.setattr(gpu.torch.version, "hip", hip)
    monkeypatch.setattr(gpu.torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(gpu.torch.cuda, "get_device_properties", lambda device: properties)
    assert gpu.arch_of("cuda:0") == arch
