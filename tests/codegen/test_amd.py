"""What the real compiler makes of the decode kernel for AMD: no spills, no scratch, wide loads."""

import re

import pytest

from kgen.inspect.census import census
from tests.codegen.disassembly import built, has_amd, inner_loop, instructions, texts, turn, variant

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
        assert found["buffer_load_dwordx4"] == 3 * (chunks + tokens)  # the first tile, and the next of two
        assert found["global_load_dwordx4"] == chunks  # queries
        (products,) = (count for name, count in found.items() if name.startswith("v_mfma_f32_16x16x16"))
        assert products == 2 * (2 * chunks + 128 // 16)
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
    assert found["global_load_dwordx4"] == 8  # parts in flight
    assert found["s_barrier"] == 1 and found["ds_read_b128"] and not found["scratch_load_dwordx4"]


MATRIX = [
    {"dtype": "f16", "head_dim": 64, "block_size": 16, "layout": "bshd", "reuse_kv_times": 4},
    {"dtype": "bf16", "head_dim": 128, "block_size": 64, "layout": "bhsd", "reuse_kv_times": 8},
    {"dtype": "f16", "head_dim": 128, "block_size": 256, "layout": "bshd", "reuse_kv_times": 8},
    {"dtype": "bf16", "head_dim": 80, "block_size": 32, "layout": "bshd", "reuse_kv_times": 16},
]


def stepped(loop: list[str]) -> list[list[str]]:
    """For each place that descriptors of the loop take their addresses from: what changes it there.

    A load names four words. The first two are copied from a place before it, the second without its
    upper half."""
    places = set()
    for at, text in enumerate(loop):
        if match := re.match(r"buffer_load\S* .*, s\[(\d+):\d+\], 0", text):
            word = int(match[1])
            low = copied(loop[:at], rf"s_mov_b32 s{word}, s(\d+)")
            places.add((low, copied(loop[:at], rf"s_and_b32 s{word + 1}, s(\d+), 0xffff")))
    return [
        [text.split()[0] for text in loop if re.match(rf"s_\w+ s({low}|{high}),", text)]
        for low, high in sorted(places)
    ]


def copied(before: list[str], copy: str) -> str:
    """What the last copy of this form takes."""
    return next(match[1] for text in reversed(before) if (match := re.fullmatch(copy, text)))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("partition_size", [0, 512])
@pytest.mark.parametrize(
    "params", MATRIX, ids=lambda params: f"{params['dtype']}_d{params['head_dim']}_b{params['block_size']}"
)
def test_the_inner_loop_multiplies_by_matrix_and_steps_its_descriptors(arch, partition_size, params):
    made = variant(arch, partition_size=partition_size, **params)
    assert made.lets["matrix"] and made.lets["ahead"] and made.lets["values_ahead"]
    loop = inner_loop(built(made), made.name, "amd")
    found = census(loop.own, "amd")
    key_chunks, value_chunks = -(-params["head_dim"] // 32), -(-params["head_dim"] // 128)
    assert found["load_16"] == 2 * (key_chunks + 4 * value_chunks)  # two tiles take turns in registers
    assert found["scalar_load"] == 2  # an entry of the block table for each
    assert found["matrix"] == 2 * (2 * key_chunks + 8 * value_chunks)
    assert not found.keys() & {"scratch", "lds", "accumulator", "barrier", "load_narrow", "store", "atomic"}
    text = texts(loop)
    assert all(t.startswith("buffer_load_dwordx4") for t in text if "load_dwordx4" in t)
    # One 64-bit addition a tile moves the descriptor of keys, one that of values, and one more where tiles
    # lie at different places of their pages: no lane computes addresses.
    moves = stepped(text)
    if params["block_size"] > 64:
        assert len(moves) == 2 and all(len(move) <= 8 for move in moves)
        assert all(set(move) == {"s_add_u32", "s_addc_u32"} for move in moves)
    else:
        assert moves == [["s_add_u32", "s_addc_u32"] * 2] * 2
    assert not [t for t in text if re.match(r"v_(addc|mad_u64|mad_i64|lshl_add_u64|lshlrev_b64)", t)]


AHEAD = [
    {"head_dim": 64, "loads": 6},
    {"head_dim": 128, "loads": 8},
    {"head_dim": 128, "loads": 8, "block_size": 256, "partition_size": 512},
    {"head_dim": 128, "loads": 8, "partition_size": -1},
    {"head_dim": 128, "loads": 8, "reuse_kv_times": 32},
    {"head_dim": 128, "loads": 8, "variant": "sliding"},
    {"head_dim": 128, "loads": 12, "kv_dtype": "fp8_e4m3"},
    {"head_dim": 256, "loads": 16},
]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("form", AHEAD, ids=lambda form: "_".join(map(str, form.values())))
def test_loads_of_the_next_tile_are_under_way_while_a_tile_is_multiplied(arch, form):
    params = {"dtype": "bf16", "block_size": 64, "layout": "bshd", "reuse_kv_times": 4, "partition_size": 0}
    params |= {key: value for key, value in form.items() if key != "loads"}
    made = variant(arch, **params)
    entry = built(made)
    assert entry.resources["spills"] == entry.resources["scratch_bytes"] == 0
    taken, tile = turn(entry, made.name), form["loads"]
    assert taken.census["load_16"] + taken.census.get("load_narrow", 0) == 2 * tile
    # Where registers hold values of one tile only, those of the next follow once these are multiplied.
    assert min(taken.matrix_loads) >= (tile if made.lets["values_ahead"] else tile // 2)
    assert taken.kept == tile and max(taken.loads) <= 2 * tile
    assert all(0 < wait.left < wait.asked for wait in taken.waits)
    assert taken.address.keys() == {"scalar"}
    assert not taken.census.keys() & {"lane", "lds", "scratch", "store", "atomic", "barrier", "accumulator"}


def test_a_tile_takes_few_instructions_beside_its_products():
    params = {"head_dim": 128, "block_size": 64, "layout": "bshd", "reuse_kv_times": 4, "partition_size": 0}
    made = variant("gfx942", dtype="bf16", **params)
    found = turn(built(made), made.name).census
    perms, weights = 16 + 2, 4  # values change places by twos; scores of a lane
    per_tile = (found["vector"] + found["address"]) / 2
    assert found["exp2"] == 2 * weights
    assert per_tile <= perms + 4 * weights + 4  # scale, compare, subtract, round, add
    assert found["scalar"] / 2 <= 30
