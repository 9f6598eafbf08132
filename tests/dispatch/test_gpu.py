"""Calls on a GPU, through the binding and through ctypes: what is launched, with which words, and what is
refused. The driver is stood in for by a few lines of C, the device's memory by CPU tensors."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from kgen import api
from kgen.diagnostics import KgenError
from kgen.dispatch import gpu, launch, plain
from kgen.dispatch.block import places
from kgen.dispatch.boxes import TensorMap
from kgen.dispatch.errors import kernel_fault
from kgen.dispatch.paths import Bend, Path
from kgen.dispatch.plan import Moves, Plan
from kgen.dispatch.tracking import Tracker
from kgen.manifest import ERRORS, Launch
from tests.dispatch import fake_driver
from tests.dispatch.toy import OPERATOR, POLICY, WORDS

NAMES = [word.name for word in WORDS]
ERROR_WORD, STREAM, WORKSPACE, DEVICE = 0x7000, 0x55, 0x10000, 3


@pytest.fixture(scope="module")
def policy():
    return api.compiler().policy("paged_attention")


@pytest.fixture(scope="module", params=["cuda", "hip"])
def fake(request, tmp_path_factory):
    driver = fake_driver.fake_class(request.param, tmp_path_factory.mktemp(request.param))()
    fake_driver.show_words(driver, len(WORDS))
    return driver


@pytest.fixture
def driver(fake):
    """A driver with an empty log."""
    fake.place(DEVICE)
    fake_driver.clear(fake)
    yield fake
    fake_driver.refuse(fake, 0)


class Calls:
    """A caller of the toy whose plans run on the fake driver; `told` is what a device would report."""

    def __init__(self, driver, binding, checked=False, maps=(), moves=None, ranges=None):
        self.driver, self.checked, self.maps = driver, checked, maps
        self.moves, self.ranges = moves or Moves(), ranges or {}
        self.workspaces, self.told = [], (0, 0, 0, 0)
        self.plans = []
        self.no_stream = False
        signature = launch.Signature(
            op="toy",
            tensors=OPERATOR.tensors,
            scalars={name: kind == "float" for name, kind in OPERATOR.scalars.items()},
            keywords=tuple(OPERATOR.keywords),
            steering=frozenset({"limit"}),
            environment=(),
            extents={"x": "num_rows", "lse": "num_rows"} if ranges else {},
        )
        services = launch.Services(
            make_plan=self.plan,
            fail=self.fail,
            overlap=self.overlap,
            workspace=self.workspace,
            stream=self.stream,
            refuse=self.refuse,
            wait=self.wait,
        )
        self.call = (
            launch.compiled_caller(launch.load_binding(binding), signature, services)
            if binding
            else plain.PlainCaller(signature, services)
        )

    def plan(self, *_arguments):
        kernels = [self.driver.load(b"image", symbol, DEVICE) for symbol in ("there", "there_combine")]
        steps = (gpu.Step(kernels[0], (4, 5, 6), 256, 0), gpu.Step(kernels[1], (7, 1, 1), 64, 1024))
        if self.maps:
            steps = (replace(steps[0], maps=self.maps),)
        launcher = gpu.Launcher(
            driver=self.driver,
            device=DEVICE,
            steps=(*steps, replace(steps[0], grid=(3, 0, 1))),
            aligned=gpu.row_words(POLICY, "pointer"),
            error=ERROR_WORD,
            checked=self.checked,
        )
        pointers = places(POLICY, "pointer")
        self.plans.append(
            Plan(
                policy=POLICY,
                selection=None,
                facts={},
                address=0,
                words=tuple(range(1000, 1000 + len(WORDS))),
                pointers=pointers,
                scalars=places(POLICY, "scalar"),
                workspace={pointers["parts"]: 0, pointers["sums"]: 256},
                workspace_size=4096,
                launcher=launcher,
                moves=self.moves,
                ranges=self.ranges,
            )
        )
        return self.plans[-1]

    def stream(self, device):
        if self.no_stream:
            raise RuntimeError("no stream")
        return STREAM + device

    def workspace(self, size, device, stream):
        self.workspaces.append((size, device, stream))
        return WORKSPACE

    def fail(self, plan, _values, _status, *told):
        raise kernel_fault(plan.policy, plan.facts, told)

    def overlap(self, plan, _values, pair, apart):
        raise AssertionError(f"pair {pair} of {plan.policy.op} meets at {apart}")

    def refuse(self, plan, status):
        raise plan.launcher.refusal(status)

    def wait(self, plan):
        if self.told[0]:
            raise kernel_fault(plan.policy, plan.facts, self.told)

    def __call__(self, **changes):
        values = {
            "echo": torch.zeros(8, dtype=torch.int64),
            "x": torch.randn(3, 8, 8),
            "k_cache": torch.zeros(5, 16, 2, 8),
            "v_cache": torch.zeros(5, 16, 2, 8),
            "lse": None,
            "scale": 0.5,
            "limit": 100,
            "fail": 0,
            **dict.fromkeys(OPERATOR.keywords),
            **changes,
        }
        assert self.call(*values.values()) is True
        return values


@pytest.fixture
def calls(driver, launcher):
    return Calls(driver, launcher)


def test_every_kernel_of_a_plan_starts_on_the_current_stream(calls, driver):
    for limit in (100, 100):
        fake_driver.clear(driver)
        values = calls(limit=limit)
        first, last = fake_driver.launches(driver)
        assert [first[:2], last[:2]] == [(0x200, STREAM + DEVICE), (0x208, STREAM + DEVICE)]
        assert first[2] == last[2]
        block = dict(zip(NAMES, first[2], strict=True))
        assert block["error"] == ERROR_WORD
        assert (block["parts"], block["sums"]) == (WORKSPACE, WORKSPACE + 256)
        assert [block[n] for n in ("x", "k_cache")] == [values[n].data_ptr() for n in ("x", "k_cache")]
        assert (block["lse"], block["limit"], block["num_rows"]) == (0, 100, 1000 + NAMES.index("num_rows"))
        assert fake_driver.log(driver)[-4:] == ["on", "launch", "launch", "off"]
    assert calls.workspaces == [(4096, f"cuda:{DEVICE}", STREAM + DEVICE)] * 2
    assert len(calls.plans) == 1
    assert calls.plans[0].calls.value == 2
    assert fake_driver.seen(driver)[:8] == [0x208, 7, 1, 1, 64, 1, 1, 1024]


def test_figures_that_follow_from_a_scalar_move_with_it(driver, launcher):
    parts = Path("limit", (Bend(1, 0, "max", 1), Bend(1, 511, "//", 512)))
    near = Path("limit", (Bend(1, 0, "min", 600), Bend(-1, 5, "//", 2)), -3, 7)
    sums = places(POLICY, "pointer")["sums"]
    moves = Moves(
        words={NAMES.index("num_parts"): parts, NAMES.index("passes"): near},
        size=parts.straight(4096, 0),
        offsets={sums: parts.straight(256, 64)},
        grids={(0, 2): parts, (1, 0): parts.straight(8, 0)},
    )
    calls = Calls(driver, launcher, moves=moves, ranges={"limit": (0, 4000)})
    for limit in (100, 513, 0, 4000, 601):
        fake_driver.clear(driver)
        calls(limit=limit)
        count, first = max(1, -(-limit // 512)), fake_driver.launches(driver)[0]
        block = dict(zip(NAMES, first[2], strict=True))
        assert (block["limit"], block["num_parts"]) == (limit, count)
        assert block["passes"] == 7 - 3 * ((5 - min(limit, 600)) // 2)
        assert (block["parts"], block["sums"]) == (WORKSPACE, WORKSPACE + 256 * count + 64)
        assert calls.workspaces[-1][0] == 4096 * count
        assert fake_driver.grids(driver) == [[4, 5, count], [8 * count, 1, 1]]
    assert len(calls.plans) == 1
    calls(limit=4001)
    assert len(calls.plans) == 2


def test_a_thread_that_works_on_the_device_already_stays_there(calls, driver):
    calls()
    with driver.on(DEVICE):
        fake_driver.clear(driver)
        calls()
        assert fake_driver.log(driver) == ["launch", "launch"]


def test_a_pointer_off_its_16_bytes_starts_nothing(calls, driver):
    calls()
    fake_driver.clear(driver)
    wide = torch.zeros(3 * 8 * 8 + 1)
    place, shifted = NAMES.index("x"), wide[1:].view(3, 8, 8)
    with pytest.raises(KgenError, match=f"argument word {place} is {shifted.data_ptr():#x}, not aligned"):
        calls(x=shifted)
    assert fake_driver.log(driver) == []
    calls(echo=torch.zeros(9, dtype=torch.int64)[1:])  # read one element at a time
    assert calls.plans[0].calls.value == 2


def test_what_the_driver_refuses_is_raised_and_the_device_given_back(calls, driver):
    calls()
    fake_driver.clear(driver)
    fake_driver.refuse(driver, 1)
    with pytest.raises(KgenError, match=rf"the {driver.NAME} driver refused {driver.START}: ADDRESS"):
        calls()
    assert fake_driver.log(driver) == ["on", "off"]
    assert calls.plans[0].calls.value == 1


def test_a_checked_call_raises_what_the_device_reports(driver, launcher):
    for checked in (False, True):
        calls = Calls(driver, launcher, checked)
        calls()
        calls.told = (ERRORS["seq_len"], 1, 100, -5)
        if checked:
            with pytest.raises(KgenError, match="row 1: sequence length -5 is outside 0 to 100"):
                calls()
        else:
            calls()


def test_a_stream_that_cannot_be_had_is_raised(calls, driver):
    calls()
    fake_driver.clear(driver)
    calls.no_stream = True
    with pytest.raises(RuntimeError, match="no stream"):
        calls()
    assert fake_driver.log(driver) == []


def test_tensors_that_come_in_boxes_are_told_behind_the_block(driver, launcher):
    if driver.NAME != "CUDA":
        pytest.skip("the copy engine is NVIDIA's")
    cache = TensorMap(NAMES.index("k_cache"), 2, (64, 16, 2, 2, 5), (512, 128, 256, 8192), (64, 16, 2, 1, 1))
    missing = TensorMap(NAMES.index("lse"), 4, (32, 1, 1, 1, 1), (128, 128, 128, 128), (32, 1, 1, 1, 1))
    calls = Calls(driver, launcher, maps=(cache, missing, TensorMap(-1)))
    fake_driver.show_maps(driver, 3)
    try:
        for _ in range(2):
            values = calls(k_cache=torch.zeros(5, 16, 2, 8))
            told = fake_driver.maps(driver)
            assert told[0][:3] == [values["k_cache"].data_ptr(), 1, 5]
            assert told[0][3:12] == [64, 16, 2, 2, 5, 512, 128, 256, 8192]
            assert told[0][12:] == [64_016_002_001_001, 320]
            assert told[1] == told[2] == [0] * 14
    finally:
        fake_driver.show_maps(driver, 0)
    assert len(calls.plans) == 1


def test_a_map_has_the_rows_of_its_call(driver, launcher):
    if driver.NAME != "CUDA":
        pytest.skip("the copy engine is NVIDIA's")
    rows = TensorMap(
        NAMES.index("x"), 4, (32, 3, 1, 8, 1), (256, 128, 32, 128), (32, 16, 1, 1, 1), "num_rows"
    )
    calls = Calls(driver, launcher, maps=(rows,), ranges={"num_rows": (2, 100)})
    fake_driver.show_maps(driver, 1)
    try:
        for count in (3, 50, 2):
            x = calls(x=torch.randn(count, 8, 8))["x"]
            assert fake_driver.maps(driver)[0][:8] == [x.data_ptr(), 2, 5, 32, count, 1, 8, 1]
    finally:
        fake_driver.show_maps(driver, 0)
    assert len(calls.plans) == 1


def test_a_tensor_the_copy_engine_cannot_take_is_refused_by_name(driver, launcher):
    if driver.NAME != "CUDA":
        pytest.skip("the copy engine is NVIDIA's")
    cache = TensorMap(NAMES.index("k_cache"), 2, (64, 16, 2, 2, 5), (512, 128, 256, 8192), (64, 16, 2, 1, 1))
    calls = Calls(driver, launcher, maps=(cache,))
    fake_driver.refuse(driver, 1, "map")
    try:
        with pytest.raises(KgenError, match="the CUDA driver refused cuTensorMapEncodeTiled: FOUND"):
            calls()
    finally:
        fake_driver.refuse(driver, 0, "map")
    assert "launch" not in fake_driver.log(driver)


def test_a_driver_without_a_copy_engine_says_so(driver):
    if driver.NAME == "CUDA":
        pytest.skip("CUDA has one")
    with pytest.raises(KgenError, match="the HIP driver knows no tensor maps"):
        driver.encode(TensorMap(3), (ctypes.c_int64 * 4)())


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


def test_grids_come_from_the_facts_and_stay_within_the_device(driver, monkeypatch):
    monkeypatch.setattr(gpu, "driver", lambda: driver)
    last = Launch((["name", "heads"], ["int", 1], ["int", 1]), 64, symbol="there_combine")
    launch = Launch((["name", "heads"], ["name", "seqs"], ["int", 1]), 256, 1024, then=last)
    built = SimpleNamespace(entry=SimpleNamespace(name="k", symbol="there", launch=launch))
    grids = gpu.grids(built, Tracker({"heads": 8, "seqs": 65535}, {}))
    found = gpu.steps(built, b"image", grids, DEVICE, TensorMap)
    assert [(step.kernel.function, step.grid, step.block, step.dynamic_lds) for step in found] == [
        (0x200, (8, 65535, 1), 256, 1024),
        (0x208, (8, 1, 1), 64, 0),
    ]
    with pytest.raises(KgenError, match="k needs 65536 blocks along y; the device allows 65535"):
        gpu.grids(built, Tracker({"heads": 8, "seqs": 65536}, {}))


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
