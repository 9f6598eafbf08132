"""What the real compiler makes of the decode kernel for AMD: no spills, no scratch, wide loads."""

import pytest

from tests.codegen.disassembly import built, has_amd, instructions, variant

pytestmark = pytest.mark.skipif(not has_amd(), reason="clang++-19 and llvm-objdump-19 are not installed")

BHSD = {"dtype": "bf16", "head_dim": 128, "block_size": 64, "reuse_kv_times": 8, "partition_size": 512}
VLLM = {"dtype": "f16", "head_dim": 80, "block_size": 16, "reuse_kv_times": 4, "partition_size": 0}
DECODE = [{"layout": "bhsd", **BHSD}, {"layout": "vllm", **VLLM}]
FORBIDDEN = ("flat_", "scratch_", "global_load_ushort", "global_load_short", "v_readlane", "s_trap")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("params", DECODE, ids=lambda params: params["layout"])
def test_decode_reads_kv_16_bytes_at_a_time_and_spills_nothing(arch, params):
    made = variant(arch, **params)
    entry = built(made)
    assert entry.resources["spills"] == entry.resources["scratch_bytes"] == 0
    assert entry.resources["lds_bytes"] == made.lets["lds_bytes"]
    assert entry.resources["wave"] == 64
    assert entry.resources["vgpr"] <= 2 * made.target.registers  # half of them are accumulators
    found = instructions(entry, entry.symbol)
    if made.lets["matrix"]:
        chunks, tokens = 128 // 32, 4
        assert found["buffer_load_dwordx4"] == 2 * chunks + tokens  # keys twice: before the loop and ahead
        assert found["global_load_dwordx4"] == chunks  # queries
        (products,) = (count for name, count in found.items() if name.startswith("v_mfma_f32_16x16x16"))
        assert products == 2 * chunks + 128 // 16
    else:
        queries, steps, columns = made.params["reuse_kv_times"], int(made.lets["step"]), 8
        assert found["global_load_dwordx4"] == queries + steps + columns
    assert not [name for name in found if name.startswith(FORBIDDEN)]
    assert found["v_exp_f32_e32"] and found["s_barrier"]
    assert found["ds_bpermute_b32" if made.lets["matrix"] else "v_mov_b32_dpp"]


def test_combine_is_a_kernel_of_its_own():
    entry = built(variant("gfx942", **DECODE[0]))
    assert entry.launch.then.symbol == f"{entry.symbol}_combine"
    found = instructions(entry, entry.launch.then.symbol)
    assert found["global_load_dwordx4"] == 2 * 8  # eight parts in flight: the first, and those of a loop
    assert found["s_barrier"] == 4 and found["ds_read_b128"] and not found["scratch_load_dwordx4"]
