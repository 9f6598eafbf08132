"""GPU templates speak the dialect and nothing else."""

from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.render.dialect import check_dialect
from kgen.render.model import LineOrigin

FORBIDDEN = [
    "__shared__ float tile[64];",
    "const float* p = reinterpret_cast<const float*>(a.q);",
    "float* p = (float*)a.q;",
    "auto p = (const kgen::f16 *)a.q;",
    "auto p = (Vec<float, 4>*)a.q;",
    "auto p = static_cast<uint4*>(raw);",
    "const int i = threadIdx.x;",
    "__syncthreads();",
    "x = __shfl_xor_sync(~0u, x, 1);",
    "x = __builtin_amdgcn_exp2f(x);",
    'asm volatile("" ::: "memory");',
    "atomicAdd(p, 1);",
    "cudaDeviceSynchronize();",
]
ALLOWED = """
// A comment may say __shared__ or (float*)x.
/* and so may
   threadIdx.x here */
const int64_t span = (a.num_blocks - 1) * a.stride + 1;
const float x = static_cast<float>(a.scale) * kgen::exp2(y);
const auto row = (first * kRows) * (last * kRows);
"""


@pytest.mark.parametrize("line", FORBIDDEN)
def test_what_goes_round_the_dialect_is_refused(tmp_path: Path, line: str):
    (tmp_path / "k.j2").write_text(f"fine\n  {line}\n")
    with pytest.raises(KgenError) as raised:
        check_dialect(f"// head\n\n{line}\n", [LineOrigin(3, "k.j2", 2)], tmp_path)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "K337" and diagnostic.hint
    assert str(diagnostic.span) == "templates/k.j2:2:3"


def test_all_faults_are_told(tmp_path: Path):
    with pytest.raises(KgenError) as raised:
        check_dialect("\n".join(FORBIDDEN), [], tmp_path)
    assert len(raised.value.diagnostics) >= len(FORBIDDEN)


def test_comments_casts_of_numbers_and_products_are_no_fault(tmp_path: Path):
    check_dialect(ALLOWED, [], tmp_path)
