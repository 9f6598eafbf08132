"""The drivers' APIs, against drivers made of a few lines of C that write down what they are asked."""

import ctypes
import subprocess

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch import cuda, hip

SHARED = r"""
#include <string.h>
char log_text[4096];
long long seen[64];
int refuse_launch, current = 5;
static int say(const char* text) { strcat(strcat(log_text, text), " "); return 0; }
static int load(void** module, const void* image) {
  if (memcmp(image, "image", 5) != 0) return 200;
  *module = (void*)0x100;
  return say("load");
}
static int find(void** function, void* module, const char* name) {
  if (module != (void*)0x100 || strcmp(name, "there") != 0) return 500;
  *function = (void*)0x200;
  return say("function");
}
static int launch(void* function, const unsigned* sizes, void* stream, void** parameters, void** extra) {
  if (refuse_launch) return 700;
  seen[0] = (long long)function;
  for (int i = 0; i < 7; ++i) seen[1 + i] = sizes[i];
  seen[8] = (long long)stream;
  seen[9] = extra == 0;
  memcpy(seen + 10, parameters[0], 4 * 8);
  return say("launch");
}
static const char* name_of(int status) {
  return status == 700 ? "ADDRESS" : status == 500 ? "FOUND" : "IMAGE";
}
#define LAUNCH(name)                                                                                  \
  int name(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
           unsigned lds, void* stream, void** parameters, void** extra) {                              \
    const unsigned sizes[] = {gx, gy, gz, bx, by, bz, lds};                                            \
    return launch(function, sizes, stream, parameters, extra);                                         \
  }
"""

CUDA = r"""
int cuInit(unsigned flags) { return flags || say("init"); }
int cuDeviceGet(int* device, int index) { *device = index + 10; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(long)device;
  return say("retain");
}
int cuCtxPushCurrent_v2(void* context) { seen[30] = (long long)context; return say("on"); }
int cuCtxPopCurrent_v2(void** context) { *context = 0; return say("off"); }
int cuModuleLoadData(void** module, const void* image) { return load(module, image); }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return find(function, module, name);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  seen[20] = attribute, seen[21] = value;
  return function != (void*)0x200 || say("attribute");
}
LAUNCH(cuLaunchKernel)
int cuGetErrorName(int status, const char** name) { *name = name_of(status); return 0; }
"""

HIP = r"""
int hipInit(unsigned flags) { return flags || say("init"); }
int hipGetDevice(int* device) { *device = current; return 0; }
int hipSetDevice(int device) { current = device; return say(device == 5 ? "off" : "on"); }
int hipModuleLoadData(void** module, const void* image) { return load(module, image); }
int hipModuleGetFunction(void** function, void* module, const char* name) {
  return find(function, module, name);
}
LAUNCH(hipModuleLaunchKernel)
const char* hipGetErrorName(int status) { return name_of(status); }
"""


def compiled(folder, name, text):
    (folder / "driver.c").write_text(SHARED + text)
    subprocess.run(["gcc", "-shared", "-fPIC", "driver.c", "-o", name], cwd=folder, check=True)
    return str(folder / name)


@pytest.fixture(scope="module", params=["cuda", "hip"])
def fake(request, tmp_path_factory):
    """A driver class that finds its fake; `log` and `seen` read what that was asked."""
    module, name = (cuda.Cuda, CUDA) if request.param == "cuda" else (hip.Hip, HIP)
    path = compiled(tmp_path_factory.mktemp(request.param), f"lib{request.param}.so", name)
    return type("Fake", (module,), {"LIBRARY": path})


@pytest.fixture
def driver(fake):
    found = fake()
    ctypes.memset(found.library.log_text, 0, 4096)
    return found


def log(driver):
    return (
        ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(driver.library, "log_text"))).decode().split()
    )


def seen(driver):
    return list((ctypes.c_longlong * 64).in_dll(driver.library, "seen"))


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
    refuse = ctypes.c_int.in_dll(driver.library, "refuse_launch")
    refuse.value = 1
    try:
        with pytest.raises(KgenError, match=f"{driver.START}: ADDRESS"), driver.on(0):
            driver.launch(kernel, (1, 1, 1), 64, 0, words(1, 2, 3, 4), 0)
    finally:
        refuse.value = 0
    assert log(driver)[-1] == "off"


def test_cuda_is_asked_for_more_than_48_kib_of_dynamic_memory(tmp_path):
    driver = type("Fake", (cuda.Cuda,), {"LIBRARY": compiled(tmp_path, "libmore.so", CUDA)})()
    driver.load(b"image...", "there", 0, 48 * 1024)
    assert "attribute" not in log(driver)
    driver.load(b"image...", "there", 0, 100_000)
    assert seen(driver)[20:22] == [8, 100_000]


def test_hip_changes_no_device_that_is_current_already(tmp_path):
    driver = type("Fake", (hip.Hip,), {"LIBRARY": compiled(tmp_path, "libsame.so", HIP)})()
    driver.load(b"image...", "there", 5)
    assert log(driver) == ["init", "load", "function"]


@pytest.mark.parametrize(("kind", "name"), [(cuda.Cuda, "CUDA"), (hip.Hip, "HIP")])
def test_a_machine_without_a_driver_is_told_so(kind, name):
    with pytest.raises(KgenError, match=f"no {name} driver"):
        type("None", (kind,), {"LIBRARY": "libgpu-that-is-not-there.so"})()
