"""The lane maps of mma.sync against an NVIDIA GPU: a product computed through the maps is the product."""

import shutil
import subprocess

import pytest

from kgen.spec.chip import INPUTS
from kgen.spec.load import load_catalog
from kgen.targets.instructions import instructions

C_TYPES = {"f16": "__half", "bf16": "__nv_bfloat16", "fp8": "__nv_fp8_e4m3"}
HEAD = """\
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__device__ float a_at(int row, int k) { return (row * 37 + k * 5) % 11 - 5; }
__device__ float b_at(int k, int col) { return (k * 53 + col * 7) % 13 - 6; }
"""
KERNEL = """
__constant__ uint8_t NAME_a[] = {A_TABLE};
__constant__ uint8_t NAME_b[] = {B_TABLE};
__constant__ uint8_t NAME_d[] = {D_TABLE};
__global__ void NAME(int* wrong) {
  const int lane = threadIdx.x;
  TYPE a[A_HELD], b[B_HELD];
  uint32_t a_words[sizeof a / 4], b_words[sizeof b / 4];
  float d[4] = {0, 0, 0, 0};
  for (int e = 0; e < A_HELD; ++e) {
    const uint8_t* cell = NAME_a + (lane * A_HELD + e) * 2;
    a[e] = TYPE(a_at(cell[0], cell[1]));
  }
  for (int e = 0; e < B_HELD; ++e) {
    const uint8_t* cell = NAME_b + (lane * B_HELD + e) * 2;
    b[e] = TYPE(b_at(cell[0], cell[1]));
  }
  memcpy(a_words, a, sizeof a);
  memcpy(b_words, b, sizeof b);
  asm volatile("ASM {%0,%1,%2,%3}, {A_NAMES}, {B_NAMES}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : INPUTS);
  for (int e = 0; e < 4; ++e) {
    const uint8_t* cell = NAME_d + (lane * 4 + e) * 2;
    float sum = 0;
    for (int k = 0; k < DEPTH; ++k) sum += a_at(cell[0], k) * b_at(k, cell[1]);
    if (sum != d[e]) atomicAdd(wrong, 1);
  }
}
"""
MAIN = """
int main() {
  int *wrong, count;
  cudaMalloc(&wrong, sizeof count);
CALLS  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
"""
CALL = """\
  cudaMemset(wrong, 0, sizeof count);
  NAME<<<1, 32>>>(wrong);
  cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost);
  printf("NAME %d\\n", count);
"""


def kernel(one):
    words = {side: getattr(one, side).elements * INPUTS[one.dtype] // 4 for side in "ab"}
    names = {"a": range(4, 4 + words["a"]), "b": range(4 + words["a"], 4 + words["a"] + words["b"])}
    inputs = [f'"r"({side}_words[{i}])' for side in "ab" for i in range(words[side])]
    text = KERNEL.replace("INPUTS", ", ".join(inputs))
    for side in "abd":
        cells = getattr(one, side).cells
        table = ", ".join(str(place) for lane in cells for cell in lane for place in cell)
        text = text.replace(f"{side.upper()}_TABLE", table)
        text = text.replace(f"{side.upper()}_HELD", str(len(cells[0])))
    for side, numbers in names.items():
        text = text.replace(f"{side.upper()}_NAMES", ",".join(f"%{n}" for n in numbers))
    fixed = {"NAME": one.name, "TYPE": C_TYPES[one.dtype], "ASM": one.asm, "DEPTH": str(one.k)}
    for word, value in fixed.items():
        text = text.replace(word, value)
    return text


@pytest.mark.gpu
def test_every_map_of_mma_sync(tmp_path):
    torch = pytest.importorskip("torch")
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None or not torch.cuda.is_available():
        pytest.skip("needs nvcc and an NVIDIA GPU")
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs a GPU of sm_90 or newer")
    every = list(instructions(load_catalog().targets["sm_90"]).values())
    calls = "".join(CALL.replace("NAME", one.name) for one in every)
    source, program = tmp_path / "mma.cu", tmp_path / "mma"
    source.write_text(HEAD + "".join(map(kernel, every)) + MAIN.replace("CALLS", calls))
    subprocess.run([nvcc, "-std=c++17", "-arch=sm_90", str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{one.name} 0" for one in every]


def test_the_program_names_every_register_once():
    for one in instructions(load_catalog().targets["sm_90"]).values():
        text = kernel(one)
        for word in ("TABLE", "HELD", "NAMES", "NAME", "TYPE", "INPUTS"):
            assert word not in text.replace("TYPENAME", "")
        assert text.count('"r"(') == 4 + 2
