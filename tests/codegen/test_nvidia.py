"""What the real compiler makes of the decode kernel for NVIDIA."""

import pytest

from kgen.inspect.census import census
from tests.codegen.disassembly import built, has_nvcc, inner_loop, loop_with, texts, texts_of, variant

pytestmark = pytest.mark.skipif(not has_nvcc(), reason="nvcc is not installed")


def decode(arch, dtype, head_dim, layout="bhsd", reuse=8, partition_size=512):
    """A variant of decode over pages of 16, in parts where no other size is named."""
    sizes = {"dtype": dtype, "head_dim": head_dim, "block_size": 16, "partition_size": partition_size}
    return variant(arch, layout=layout, reuse_kv_times=reuse, **sizes)


@pytest.mark.parametrize(("arch", "layout", "reuse"), [("sm_80", "bshd", 8), ("sm_90", "vllm", 5)])
def test_large_groups_fit_the_registers_of_a_layout(arch, layout, reuse):
    made = decode(arch, "bf16", 128, layout, reuse)
    resources = built(made).resources
    assert resources["spills"] <= made.lets["allow_spill"] and made.lets["allow_spill"] <= 24
    assert resources["registers"] <= made.target.registers
    if made.lets["matrix"]:
        assert resources["registers"] <= made.lets["registers"]
    assert resources["lds_bytes"] == made.lets["lds_bytes"] <= 48 * 1024


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("dtype", "head_dim"), [("f16", 64), ("bf16", 128)])
def test_decode_and_combine_take_what_was_planned(arch, dtype, head_dim):
    made = decode(arch, dtype, head_dim)
    entry = built(made)
    assert entry.resources["spills"] == entry.resources["scratch_bytes"] == 0
    assert entry.resources["registers"] <= made.lets["registers"]
    assert entry.launch.block == {"sm_80": 4 * 32, "sm_90": 8 * 32}[arch] and entry.launch.then.block == 256


@pytest.mark.parametrize(("dtype", "head_dim"), [("f16", 64), ("bf16", 128)])
def test_the_inner_loop_multiplies_by_matrix_without_local_memory(dtype, head_dim):
    entry = built(decode("sm_80", dtype, head_dim))
    found = census(inner_loop(entry, entry.symbol, "nvidia").own, "nvidia")
    # Products of 16 x 8 x 16, 16 tokens by 8 query rows and 16 dims by 8 rows: scores, then values.
    assert found["matrix"] == head_dim // 16 + head_dim // 16
    assert found["load_16"] == head_dim // 8  # 16 tokens of keys and of values, 32 lanes a load
    assert found["load_narrow"] == 1  # the next entry of the block table
    assert not found.keys() & {"scratch", "lds", "barrier"}
    combine = inner_loop(entry, entry.launch.then.symbol, "nvidia")
    assert "scratch" not in census(combine.own, "nvidia")


@pytest.mark.parametrize("reuse", [64, 128])
@pytest.mark.parametrize("partition_size", [0, 512, -1])
def test_teams_multiply_what_the_copy_engine_brought(reuse, partition_size):
    """Scores of a tile and values of the one before, which no lane reads; little is spilled."""
    made = decode("sm_90", "bf16", 128, "bshd", reuse, partition_size)
    entry = built(made)
    assert entry.resources["spills"] <= made.lets["allow_spill"] == (24 if partition_size == -1 else 0)
    assert entry.resources["registers"] <= made.lets["registers"]
    assert entry.launch.block == reuse * 2 + 128
    assert entry.launch.dynamic_lds == made.lets["lds_bytes"]
    found = texts(loop_with(entry, entry.symbol, "HGMMA"))
    products = [text for text in found if "HGMMA" in text]
    assert len([text for text in products if "tnspB" not in text]) == 128 // 16
    assert len([text for text in products if "tnspB" in text]) == made.lets["tile_keys"] // 16
    assert not [text for text in found if "LDSM" in text or "STL" in text]
    assert not [text for text in found if "LDL" in text]
    # A wave, not each lane of it, works out where operands lie.
    assert len([text for text in found if "R2UR" in text]) < 128 // 16


@pytest.mark.parametrize(
    ("params", "most"),
    [
        ({"head_dim": 256, "layout": "bshd", "reuse_kv_times": 128, "variant": "softcap"}, 384),
        ({"head_dim": 256, "layout": "bshd", "reuse_kv_times": 128}, 300),
        ({"kv_dtype": "fp8_e4m3", "block_size": 1, "reuse_kv_times": 16, "partition_size": 512}, 96),
        ({"kv_dtype": "fp8_e4m3", "block_size": 1, "reuse_kv_times": 4, "partition_size": 0}, 0),
    ],
)
def test_what_spills_is_known(params, most):
    common = {"dtype": "bf16", "head_dim": 128, "layout": "bhsd", "block_size": 16, "partition_size": -1}
    made = variant("sm_90", **{**common, **params})
    assert built(made).resources["spills"] <= made.lets["allow_spill"] == most


@pytest.mark.parametrize(("head_dim", "reuse"), [(64, 4), (128, 16), (256, 8)])
@pytest.mark.parametrize("partition_size", [0, -1])
def test_turned_teams_multiply_keys_by_rows(head_dim, reuse, partition_size):
    """64 keys or dims an instruction, as few rows as there are; values by columns; weights by LDS."""
    made = decode("sm_90", "bf16", head_dim, "bshd", reuse, partition_size)
    entry = built(made)
    assert entry.resources["spills"] == 0 and entry.resources["registers"] <= made.lets["registers"]
    assert entry.launch.block == 128 * (3 if partition_size == -1 else 2)
    found = texts(loop_with(entry, entry.symbol, "HGMMA"))
    products = [text for text in found if "HGMMA" in text]
    assert all(f"64x{max(reuse, 8)}x16" in text for text in products)
    blocks, parts = made.lets["tile_keys"] // 64, head_dim // 64
    values = parts * made.lets["tile_keys"] // 16
    assert len([text for text in products if "tnspA" in text]) == values
    assert len(products) == values + blocks * head_dim // 16
    # Where no score outgrows what its row is relative to, a tile costs a lane so many turns and stores.
    weights = blocks * max(reuse, 8) // 2
    assert len([text for text in found if "MOVM" in text]) == 2 * weights // 2
    assert not [text for text in found if "LDSM" in text or "LDL" in text or "STL" in text]
    assert len([text for text in found if "R2UR" in text]) < len(products) // 2


def test_a_block_that_adds_orders_what_it_wrote_and_what_it_reads():
    made = decode("sm_90", "bf16", 128, "bshd", 4, -1)
    texts = texts_of(built(made), made.name)
    adds = [i for i, text in enumerate(texts) if "ATOMG.E.ADD" in text]
    assert adds
    for at in adds:
        assert any("MEMBAR.ALL.GPU" in text or "MEMBAR.SC.GPU" in text for text in texts[at - 4 : at])
        assert any("CCTL.IVALL" in text for text in texts[at + 1 : at + 5])
