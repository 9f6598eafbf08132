"""The driver API, against a driver made of a few lines of C that writes down what it is asked."""

import ctypes
import subprocess

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch import cuda

DRIVER = r"""
#include <stdio.h>
#include <string.h>
char log_text[4096];
long long seen[64];
int refuse_launch;
static int say(const char* text) { strcat(strcat(log_text, text), " "); return 0; }
int cuInit(unsigned flags) { (void)flags; return say("init"); }
int cuDeviceGet(int* device, int index) { *device = index + 10; return say("device"); }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(long)device;
  return say("retain");
}
int cuCtxPushCurrent_v2(void* context) { (void)context; return say("push"); }
int cuCtxPopCurrent_v2(void** context) { *context = 0; return say("pop"); }
int cuModuleLoadData(void** module, const void* image) {
  if (memcmp(image, "cubin", 5) != 0) return 200;
  *module = (void*)0x100;
  return say("load");
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module;
  if (strcmp(name, "there") != 0) return 500;
  *function = (void*)0x200;
  return say("function");
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function; seen[20] = attribute; seen[21] = value;
  return say("attribute");
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned lds, void* stream, void** parameters, void** extra) {
  if (refuse_launch) return 700;
  long long told[] = {(long long)function, gx, gy, gz, bx, by, bz, lds, (long long)stream, extra == 0};
  memcpy(seen, told, sizeof(told));
  memcpy(seen + 10, parameters[0], 4 * 8);
  return say("launch");
}
int cuGetErrorName(int status, const char** name) {
  *name = status == 700   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : status == 500 ? "CUDA_ERROR_NOT_FOUND"
                          : "CUDA_ERROR_INVALID_IMAGE";
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    subprocess.run(["gcc", "-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"], cwd=folder, check=True)
    return folder / "libcuda.so.1"


@pytest.fixture
def fake(library, monkeypatch):
    """The driver, freshly found, with an empty log."""
    monkeypatch.setattr(cuda, "LIBRARY", str(library))
    monkeypatch.setattr(cuda, "_modules", {})
    cuda.driver.cache_clear()
    cuda.context.cache_clear()
    found = ctypes.CDLL(str(library))
    ctypes.memset(found.log_text, 0, 4096)
    yield found
    cuda.driver.cache_clear()
    cuda.context.cache_clear()


def told(fake):
    return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(fake, "log_text"))).decode().split()


def seen(fake):
    return list((ctypes.c_longlong * 64).in_dll(fake, "seen"))


def words(*values):
    return (ctypes.c_int64 * len(values))(*values)


def test_a_launch_passes_the_block_by_value_in_the_context_of_its_device(fake):
    kernel = cuda.load(b"cubin...", "there", 3)
    cuda.launch(kernel, (5, 6, 7), 256, 0, words(11, -12, 13, 14), 0xBEEF)
    assert told(fake) == [
        "init",
        "device",
        "retain",
        "push",
        "load",
        "pop",
        "push",
        "function",
        "pop",
        "push",
        "launch",
        "pop",
    ]
    assert seen(fake)[:14] == [0x200, 5, 6, 7, 256, 1, 1, 0, 0xBEEF, 1, 11, -12, 13, 14]


def test_a_module_is_loaded_once_for_each_device(fake):
    for device in (0, 0, 1, 0):
        cuda.load(b"cubin...", "there", device)
    assert told(fake).count("load") == told(fake).count("retain") == 2


def test_a_grid_without_blocks_is_no_launch(fake):
    kernel = cuda.load(b"cubin...", "there", 0)
    cuda.launch(kernel, (4, 0, 1), 256, 0, words(1, 2, 3, 4), 0)
    assert "launch" not in told(fake)


def test_more_than_48_kib_of_dynamic_memory_is_asked_for(fake):
    cuda.load(b"cubin...", "there", 0, 48 * 1024)
    assert "attribute" not in told(fake)
    cuda.load(b"cubin...", "there", 0, 100_000)
    assert seen(fake)[20:22] == [8, 100_000]


def test_refusals_carry_the_drivers_name_for_them(fake):
    with pytest.raises(KgenError, match="cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE"):
        cuda.load(b"nonsense", "there", 0)
    with pytest.raises(KgenError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        cuda.load(b"cubin...", "elsewhere", 0)
    kernel = cuda.load(b"cubin...", "there", 0)
    refuse = ctypes.c_int.in_dll(fake, "refuse_launch")
    refuse.value = 1
    try:
        with pytest.raises(KgenError, match="cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS"):
            cuda.launch(kernel, (1, 1, 1), 64, 0, words(1, 2, 3, 4), 0)
    finally:
        refuse.value = 0
    assert told(fake)[-1] == "pop"


def test_a_machine_without_a_driver_is_told_so(monkeypatch):
    monkeypatch.setattr(cuda, "LIBRARY", "libcuda-that-is-not-there.so.1")
    cuda.driver.cache_clear()
    with pytest.raises(KgenError, match="no CUDA driver"):
        cuda.driver()
