"""What real compilers make of decode under masks and scores, which need registers for each pair."""

import pytest

from kgen.inspect.census import census
from tests.codegen.disassembly import built, has_amd, has_nvcc, inner_loop, variant

SCORES = ["softcap", "alibi", "document"]


@pytest.mark.skipif(not has_nvcc(), reason="nvcc is not installed")
@pytest.mark.parametrize("named", [*SCORES, "sinks"])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, "bf16"), (128, "f16"), (128, "f32")])
def test_masked_decode_for_nvidia_spills_nothing(head_dim, dtype, named):
    params = {"dtype": dtype, "block_size": 16, "layout": "bshd", "reuse_kv_times": 4, "partition_size": 512}
    made = variant("sm_90", head_dim=head_dim, variant=named, **params)
    assert (made.lets["matrix"] or made.lets["groups"]) == (dtype != "f32") and not made.lets["allow_spill"]
    resources = built(made).resources
    assert resources["spills"] == resources["scratch_bytes"] == 0
    assert resources["registers"] <= made.lets["registers"]


@pytest.mark.skipif(not has_amd(), reason="clang++-19 and llvm-objdump-19 are not installed")
@pytest.mark.parametrize("named", [*SCORES, "sinks"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_masked_decode_for_amd_multiplies_by_matrix_out_of_registers(arch, named):
    params = {"dtype": "f16", "block_size": 64, "layout": "bhsd", "reuse_kv_times": 8, "partition_size": 512}
    made = variant(arch, head_dim=128, variant=named, **params)
    entry = built(made)
    assert entry.resources["spills"] == entry.resources["scratch_bytes"] == 0
    found = census(inner_loop(entry, made.name, "amd").own, "amd")
    tiles = 2  # that take turns in registers
    assert found["matrix"] == tiles * (2 * 4 + 8)  # scores: 4 chunks of 32 dims; values: 8 tiles of output
    assert found["load_16"] == tiles * (4 + 4)
    assert not found.keys() & {"scratch", "lds", "barrier"}


def test_registers_for_pairs_are_planned_up_to_what_there_is():
    params = {"head_dim": 128, "block_size": 16, "layout": "bshd", "partition_size": 512}
    plain = variant("sm_90", dtype="f32", reuse_kv_times=5, **params)
    bent = variant("sm_90", dtype="f32", reuse_kv_times=5, variant="softcap", **params)
    assert bent.lets["registers"] == plain.lets["registers"] + 24
    assert (plain.lets["blocks"], bent.lets["blocks"]) == (2, 1)
    wide = {**params, "head_dim": 256}
    most = variant("sm_90", dtype="bf16", reuse_kv_times=8, variant="softcap", **wide)
    assert most.lets["registers"] == most.target.registers == 255 and most.lets["allow_spill"]
