"""What real compilers make of decode over 8-bit KV: codes become operands in few instructions."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kgen.inspect.census import census
from kgen.render.emit import render
from tests.codegen.disassembly import built, has_amd, has_nvcc, inner_loop, texts, variant
from tests.codegen.test_dcu import parse

needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="nvcc is not installed")
needs_amd = pytest.mark.skipif(not has_amd(), reason="clang++-19 and llvm-objdump-19 are not installed")
LANES = {"sm_90": 32, "gfx942": 64, "gfx90a": 64}


def decode(arch: str, kv_dtype: str = "fp8_e4m3", **changes):
    params = {"dtype": "bf16", "head_dim": 128, "block_size": 16, "layout": "bshd", "reuse_kv_times": 4}
    return variant(arch, kv_dtype=kv_dtype, partition_size=0, **{**params, **changes})


def loop_of(made, family: str):
    entry = built(made)
    assert entry.resources["spills"] == entry.resources["scratch_bytes"] == 0
    assert entry.resources["lds_bytes"] == made.lets["lds_bytes"]
    return inner_loop(entry, entry.symbol, family)


def opcodes(loop) -> Counter[str]:
    return Counter(re.sub(r"^@!?U?P\d+ ", "", text).split()[0] for text in texts(loop))


@needs_nvcc
@pytest.mark.parametrize(("kv_dtype", "word"), [("fp8_e4m3", "E4M3"), ("fp8_e5m2", "E5M2")])
@pytest.mark.parametrize(("block_size", "dtype"), [(16, "bf16"), (64, "f16")])
def test_nvidia_widens_two_codes_by_an_instruction(kv_dtype, word, block_size, dtype):
    made = decode("sm_90", kv_dtype, block_size=block_size, dtype=dtype)
    loop = loop_of(made, "nvidia")
    found, census_of = opcodes(loop), census(loop.own, "nvidia")
    codes = 2 * 32 * 128 // 32  # a lane's share of 32 tokens of keys and of values
    assert found[f"F2FP.F16.{word}.UNPACK_B"] == codes // 2
    assert census_of["matrix"] == codes // 8 and census_of["load_16"] == codes // 16
    # Beside them two words of values change bytes twice; the upper pair of a word is widened where it is.
    assert found["PRMT"] <= codes // 8 + 8
    assert found["SHF.R.U32.HI"] <= 8
    assert not census_of.keys() & {"scratch", "lds", "barrier"}
    assert made.lets["math"] == "f16" and built(made).resources["registers"] <= made.lets["registers"]


@needs_amd
@pytest.mark.parametrize(("kv_dtype", "word"), [("fp8_e4m3", "fp8"), ("fp8_e5m2", "bf8")])
def test_gfx942_widens_two_codes_by_an_instruction(kv_dtype, word):
    loop = loop_of(decode("gfx942", kv_dtype), "amd")
    codes = 2 * 2 * 32 * 128 // 64  # of two tiles, that take turns in registers
    found = Counter(text.split()[0].removesuffix("_e32") for text in texts(loop))
    widened = sum(count for name, count in found.items() if name.startswith(f"v_cvt_pk_f32_{word}"))
    assert widened == codes // 2
    assert census(loop.own, "amd")["matrix"] == codes // 4
    assert (
        found["buffer_load_dwordx4"] == codes // 2 // 16 and found["buffer_load_dwordx2"] == codes // 2 // 8
    )


@needs_amd
@pytest.mark.parametrize("kv_dtype", ["fp8_e4m3", "fp8_e5m2"])
def test_gfx90a_widens_by_integer_operations(kv_dtype):
    loop = loop_of(decode("gfx90a", kv_dtype), "amd")
    codes = 2 * 2 * 32 * 128 // 64  # of two tiles
    assert not [text for text in texts(loop) if re.match(r"v_cvt\w*_(fp8|bf8)", text)]
    per_code = len(texts(loop)) / codes
    assert per_code < (10 if kv_dtype == "fp8_e4m3" else 7)


@needs_amd
@pytest.mark.parametrize("arch", ["gfx928", "gfx936", "gfx938"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sources_for_dcus_parse(arch, dtype):
    made = decode(arch, dtype=dtype)
    source = render(made).text
    assert made.lets["matrix"] and ("KGEN_FP8_HARDWARE" in source) == (arch == "gfx938")
    answer = parse(source, made.target.stand_in, "-DKGEN_SYNTAX_ONLY")
    assert (answer.returncode, answer.stderr) == (0, "")


@needs_amd
@pytest.mark.parametrize("kv_dtype", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_writers_for_amd_spill_nothing(arch, kv_dtype):
    made = variant(
        arch, "reshape_and_cache", dtype="bf16", kv_dtype=kv_dtype, head_dim=128, block_size=16, layout="vllm"
    )
    resources = built(made).resources
    assert resources["spills"] == resources["scratch_bytes"] == 0
