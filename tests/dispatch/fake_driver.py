"""Drivers made of a few lines of C that write down what they are asked."""

import ctypes
import subprocess

from kgen.dispatch import cuda, hip

SHARED = r"""
#include <string.h>
char log_text[4096];
long long seen[64], grids[8][3], blocks[8][64];  // of each launch: what was asked, blocks, first words
int launches, refuse_launch, refuse_map, words_to_see = 4, maps_to_see, current = 5;
long long maps[8][16];  // parameters behind the block, of the last launch
static int say(const char* text) { strcat(strcat(log_text, text), " "); return 0; }
static int load(void** module, const void* image) {
  if (memcmp(image, "image", 5) != 0) return 200;
  *module = (void*)0x100;
  return say("load");
}
static int find(void** function, void* module, const char* name) {
  if (module != (void*)0x100 || strncmp(name, "there", 5) != 0) return 500;
  *function = (void*)(0x200 + strlen(name) - 5);
  return say("function");
}
static int launch(void* function, const unsigned* sizes, void* stream, void** parameters, void** extra) {
  if (refuse_launch) return 700;
  seen[0] = (long long)function;
  for (int i = 0; i < 7; ++i) seen[1 + i] = sizes[i];
  seen[8] = (long long)stream;
  seen[9] = extra == 0;
  memcpy(seen + 10, parameters[0], 4 * 8);
  for (int i = 0; i < maps_to_see; ++i) memcpy(maps[i], parameters[1 + i], 128);
  for (int i = 0; i < 3; ++i) grids[launches % 8][i] = sizes[i];
  long long* block = blocks[launches++ % 8];
  block[0] = (long long)function, block[1] = (long long)stream;
  memcpy(block + 2, parameters[0], words_to_see * 8);
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
static void* context;
int cuInit(unsigned flags) { return flags || say("init"); }
int cuDeviceGet(int* device, int index) { *device = index + 10; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(long)device;
  return say("retain");
}
int cuCtxGetCurrent(void** current_one) { *current_one = context; return 0; }
int cuCtxSetCurrent(void* wanted) {
  seen[30] = (long long)(context = wanted);
  return say(wanted ? "on" : "off");
}
int cuModuleLoadData(void** module, const void* image) { return load(module, image); }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return find(function, module, name);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  seen[20] = attribute, seen[21] = value;
  return function != (void*)0x200 || say("attribute");
}
int cuTensorMapEncodeTiled(long long* map, int element, unsigned rank, void* address,
                           const long long* sizes, const long long* strides, const unsigned* box,
                           const unsigned* steps, int interleave, int swizzle, int promotion, int fill) {
  if (refuse_map || (long long)map % 64 || (long long)address % 16) return 500;
  map[0] = (long long)address, map[1] = element, map[2] = rank;
  map[12] = 0;
  for (int i = 0; i < 5; ++i) map[3 + i] = sizes[i], map[12] = map[12] * 1000 + box[i] * steps[i];
  for (int i = 0; i < 4; ++i) map[8 + i] = strides[i];
  map[13] = interleave * 1000 + swizzle * 100 + promotion * 10 + fill;
  return 0;
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

KINDS = {"cuda": (cuda.Cuda, CUDA), "hip": (hip.Hip, HIP)}


def compiled(folder, name, text):
    """The path of a fake driver's library."""
    (folder / "driver.c").write_text(SHARED + text)
    subprocess.run(["gcc", "-shared", "-fPIC", "driver.c", "-o", name], cwd=folder, check=True)
    return str(folder / name)


def fake_class(kind, folder):
    """The driver class of `cuda` or `hip`, on its fake."""
    base, text = KINDS[kind]
    return type("Fake", (base,), {"LIBRARY": compiled(folder, f"lib{kind}.so", text)})


def log(driver):
    """What was asked since the log was cleared."""
    text = ctypes.c_char.in_dll(driver.library, "log_text")
    return ctypes.string_at(ctypes.addressof(text)).decode().split()


def clear(driver):
    ctypes.memset(driver.library.log_text, 0, 4096)
    ctypes.c_int.in_dll(driver.library, "launches").value = 0


def seen(driver):
    """What the last calls were given, by place."""
    return list((ctypes.c_longlong * 64).in_dll(driver.library, "seen"))


def show_words(driver, count):
    """Keep so many words of each argument block (62 at most)."""
    ctypes.c_int.in_dll(driver.library, "words_to_see").value = count


def launches(driver):
    """(function, stream, words of the block) of each launch since the log was cleared."""
    count = ctypes.c_int.in_dll(driver.library, "launches").value
    words = ctypes.c_int.in_dll(driver.library, "words_to_see").value
    blocks = (ctypes.c_longlong * 64 * 8).in_dll(driver.library, "blocks")
    return [(row[0], row[1], list(row)[2 : 2 + words]) for row in blocks[:count]]


def grids(driver):
    """Blocks along x, y and z of each launch since the log was cleared."""
    count = ctypes.c_int.in_dll(driver.library, "launches").value
    return [list(row) for row in (ctypes.c_longlong * 3 * 8).in_dll(driver.library, "grids")[:count]]


def show_maps(driver, count):
    """Keep so many parameters behind the argument block, of kernels that have as many."""
    ctypes.c_int.in_dll(driver.library, "maps_to_see").value = count


def maps(driver):
    """Those of the last launch, as `cuTensorMapEncodeTiled` was asked for them."""
    count = ctypes.c_int.in_dll(driver.library, "maps_to_see").value
    rows = (ctypes.c_longlong * 16 * 8).in_dll(driver.library, "maps")
    return [list(row)[:14] for row in rows[:count]]


def refuse(driver, value, what="launch"):
    """Whether launches, or tensor maps (`map`), are refused from now on."""
    ctypes.c_int.in_dll(driver.library, f"refuse_{what}").value = value
