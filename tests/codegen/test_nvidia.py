"""What the real compiler makes of the decode kernel for NVIDIA."""

import pytest

from tests.codegen.disassembly import built, has_nvcc, variant

pytestmark = pytest.mark.skipif(not has_nvcc(), reason="nvcc is not installed")


@pytest.mark.parametrize(("layout", "reuse"), [("bshd", 16), ("vllm", 5)])
def test_the_largest_reuse_of_a_layout_fits_the_registers(layout, reuse):
    made = variant(
        "sm_90",
        dtype="bf16",
        head_dim=128,
        block_size=16,
        layout=layout,
        reuse_kv_times=reuse,
        partition_size=512,
    )
    resources = built(made).resources
    assert resources["spills"] == resources["scratch_bytes"] == 0
    assert resources["registers"] <= made.target.registers
    if made.lets["matrix"]:
        assert resources["registers"] <= made.lets["registers"]
    assert resources["lds_bytes"] == made.lets["lds_bytes"] <= 48 * 1024
