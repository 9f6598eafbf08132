"""The drivers' APIs, against drivers that write down what they are asked."""

import ctypes

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch import cuda, hip
from tests.dispatch.fake_driver import clear, fake_class, log, refuse, seen


@pytest.fixture(scope="module", params=["cuda", "hip"])
def fake(request, tmp_path_factory):
    """A driver class that finds its fake."""
    return fake_class(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def driver(fake):
    found = fake()
    clear(found)
    return found


def words(*values):
    return (ctypes.c_int64 * len(values))(*values)


def test_a_launch_passes_the_block_by_value_on_its_device(driver):
    kernel = driver.load(b"image...", "there", 3)
    with driver.on(3):
        driver.launch(kernel, (5, 6, 7), 256, 0, words(11, -12, 13, 14), 0xBEEF)
    asked = [word for word in log(driver) if word != "retain"]
    assert asked == ["on", "load", "function", "off", "on", "launch", "off"]
    assert seen(driver)[:14] == [0x200, 5, 6, 7, 256, 1, 1, 0, 0xBEEF, 1, 11, -12, 13, 14]


def test_a_module_is_loaded_once_for_each_device(driver):
    for device in (0, 0, 1, 0):
        driver.load(b"image...", "there", device)
    assert log(driver).count("load") == 2


def test_a_grid_without_blocks_is_no_launch(driver):
    kernel = driver.load(b"image...", "there", 0)
    driver.launch(kernel, (4, 0, 1), 256, 0, words(1, 2, 3, 4), 0)
    assert "launch" not in log(driver)


def test_refusals_carry_the_drivers_name_for_them(driver):
    with pytest.raises(KgenError, match=f"{driver.LOAD}: IMAGE"):
        driver.load(b"nonsense", "there", 0)
    with pytest.raises(KgenError, match=f"{driver.FUNCTION}: FOUND"):
        driver.load(b"image...", "elsewhere", 0)
    kernel = driver.load(b"image...", "there", 0)
    refuse(driver, 1)
    try:
        with pytest.raises(KgenError, match=f"{driver.START}: ADDRESS"), driver.on(0):
            driver.launch(kernel, (1, 1, 1), 64, 0, words(1, 2, 3, 4), 0)
    finally:
        refuse(driver, 0)
    assert log(driver)[-1] == "off"


def test_a_device_that_is_current_already_is_left_so(driver):
    with driver.on(2):
        clear(driver)
        with driver.on(2):
            assert log(driver) == []
        with driver.on(4):
            pass
        assert log(driver) == ["retain"] * (driver.NAME == "CUDA") + ["on", "on"]  # there and back
    assert log(driver)[-1] == "off"


def test_cuda_is_asked_for_more_than_48_kib_of_dynamic_memory(tmp_path):
    driver = fake_class("cuda", tmp_path)()
    driver.load(b"image...", "there", 0, 48 * 1024)
    assert "attribute" not in log(driver)
    driver.load(b"image...", "there", 0, 100_000)
    assert seen(driver)[20:22] == [8, 100_000]


def test_cuda_devices_are_current_through_their_primary_contexts(tmp_path):
    driver = fake_class("cuda", tmp_path)()
    with driver.on(3):
        assert seen(driver)[30] == 13  # the context of device 3 of the fake


@pytest.mark.parametrize(("kind", "name"), [(cuda.Cuda, "CUDA"), (hip.Hip, "HIP")])
def test_a_machine_without_a_driver_is_told_so(kind, name):
    with pytest.raises(KgenError, match=f"no {name} driver"):
        type("None", (kind,), {"LIBRARY": "libgpu-that-is-not-there.so"})()
