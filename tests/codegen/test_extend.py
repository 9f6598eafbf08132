"""What the real compilers make of extend_attention: products, wide reads, and what leaves the registers."""

from __future__ import annotations

import re

import pytest

from kgen.inspect.census import census
from tests.codegen.disassembly import built, has_amd, has_nvcc, inner_loop, instructions, texts_of, variant

needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="nvcc is not installed")
needs_amd = pytest.mark.skipif(not has_amd(), reason="clang++-19 and llvm-objdump-19 are not installed")


def extend(arch, head_dim, mask="causal", dtype="bf16", block_size=16):
    return variant(
        arch,
        "extend_attention",
        dtype=dtype,
        head_dim=head_dim,
        block_size=block_size,
        layout="bshd",
        variant=mask,
    )


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("head_dim", "mask"), [(64, "causal"), (128, "causal"), (128, "alibi"), (256, "causal")]
)
def test_it_takes_what_was_planned_on_nvidia(arch, head_dim, mask):
    made = extend(arch, head_dim, mask)
    entry = built(made)
    used = entry.resources
    assert used["spills"] <= (0 if head_dim == 64 else made.lets["allow_spill"])
    assert used["lds_bytes"] == 0 and entry.launch.dynamic_lds == made.lets["lds_bytes"] > 48 * 1024
    assert entry.launch.block == made.lets["threads"] == (384 if arch == "sm_90" else 256)


@needs_nvcc
@pytest.mark.parametrize(("arch", "threads"), [("sm_80", 256), ("sm_90", 128)])
def test_the_loop_on_nvidia_multiplies_and_reads_by_tiles(arch, threads):
    entry = built(extend(arch, 128, block_size=1))
    found = census(inner_loop(entry, entry.symbol, "nvidia").own, "nvidia")
    # 32 rows by 64 keys by 128 dims a warp, in products of 16 x 8 x 16: scores, then outputs
    assert found["matrix"] == 2 * (2 * 8 * 8)
    # an operand tile each for keys and values, and the parked queries
    assert found["lds"] >= 2 * 32 + 16
    if arch == "sm_80":
        assert found["load_16"] == 2 * 64 * (128 // 8) // threads  # copies past the registers, a share each


@needs_nvcc
@pytest.mark.parametrize(
    ("head_dim", "keys", "stages"), [(64, 176, 4), (128, 128, 3), (192, 112, 2), (256, 80, 2)]
)
def test_groups_multiply_what_the_copy_engine_brought(head_dim, keys, stages):
    """Scores of a tile and values of the one before, none of them read by a lane, and nothing spilled."""
    made = extend("sm_90", head_dim)
    entry = built(made)
    assert made.lets["stages"] == stages
    assert entry.resources["spills"] == 0 and entry.resources["registers"] == made.lets["registers"]
    texts = [i.text for i in inner_loop(entry, entry.symbol, "nvidia").own]
    products = [text for text in texts if "HGMMA" in text]
    assert sum(f"HGMMA.64x{keys}x16" in text and "tnspB" not in text for text in products) == head_dim // 16
    assert sum(f"HGMMA.64x{head_dim}x16" in text and "tnspB" in text for text in products) == keys // 16
    assert not [text for text in texts if "LDSM" in text or "LDL" in text or "STL" in text]
    # Two batches, each waited for once, and no other wait in between that would put them in a row.
    assert [text for text in texts if "WARPGROUP.DEPBAR" in text] == [
        text for text in texts if re.search(r"WARPGROUP.DEPBAR.LE gsb0, 0x[01]", text)
    ]
    assert sum("WARPGROUP.ARRIVE" in text for text in texts) == 2
    # Weights of a tile are computed while the values of the one before are multiplied: before the last wait.
    (last,) = (i for i, text in enumerate(texts) if "WARPGROUP.DEPBAR.LE gsb0, 0x0" in text)
    powers = [i for i, text in enumerate(texts) if "MUFU.EX2" in text]
    assert len(powers) == keys // 2 + 2
    assert max(powers) < last
    assert sum("USETMAXREG" in text for text in texts_of(entry, entry.symbol)) == 2


@needs_nvcc
@pytest.mark.parametrize(("block_size", "boxes"), [(16, 8), (1, 0)])
def test_the_copy_engine_brings_pages_that_hold_boxes(block_size, boxes):
    """Keys and values, of the pool and new ones, before the loop and in it."""
    entry = built(extend("sm_90", 128, block_size=block_size))
    named = [box.argument for box in entry.launch.boxes]
    assert named == (["k_cache", "v_cache", "k_new", "v_new"] if boxes else [])
    assert sum("UTMALDG" in text for text in texts_of(entry, entry.symbol)) == boxes


@needs_amd
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(
    ("head_dim", "mask"), [(64, "causal"), (128, "causal"), (128, "alibi"), (256, "causal")]
)
def test_nothing_leaves_the_registers_on_amd(arch, head_dim, mask):
    made = extend(arch, head_dim, mask)
    entry = built(made)
    used = entry.resources
    assert used["spills"] == used["scratch_bytes"] == 0
    assert used["lds_bytes"] == made.lets["lds_bytes"]
    found = instructions(entry, entry.symbol)
    assert not [name for name in found if name.startswith(("scratch_", "flat_"))]
    (products,) = (n for name, n in found.items() if re.match(r"v_mfma_f32_16x16x16", name))
    tiles, keys = made.lets["row_tiles"], made.lets["tile_keys"]
    assert products == tiles * keys // 16 * 2 * (head_dim // 16)  # none on padding
    assert found["ds_read_b128"] >= keys // 16 * head_dim // 32  # keys, 16 bytes a lane
