"""Which instruction counts as what."""

import pytest

from kgen.inspect.census import TABLES, census, classify
from kgen.inspect.code import Instruction

SAMPLES = {
    "amd": {
        "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3]": "matrix",
        "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10": "matrix",
        "global_load_dwordx4 v[2:5], v[0:1], off": "load_16",
        "buffer_load_dwordx4 v[2:5], v0, s[8:11], s4 offen": "load_16",
        "buffer_load_dword v2, v0, s[8:11], s4 offen": "load_narrow",
        "global_load_ushort v2, v[0:1], off": "load_narrow",
        "buffer_load_dword v2, off, s[0:3], 0 offset:4": "scratch",
        "scratch_store_dword off, v1, s32": "scratch",
        "global_store_dwordx4 v[0:1], v[2:5], off": "store",
        "global_atomic_cmpswap_x2 v[0:1], v[0:1], v[2:5], off": "atomic",
        "ds_read_b128 v[0:3], v4": "lds",
        "ds_write_b32 v4, v0": "lds",
        "ds_bpermute_b32 v1, v2, v3": "lane",
        "ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)": "lane",
        "v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf": "lane",
        "v_readfirstlane_b32 s5, v1": "lane",
        "v_exp_f32_e32 v1, v2": "exp2",
        "v_accvgpr_write_b32 a0, v1": "accumulator",
        "s_load_dwordx4 s[4:7], s[0:1], 0x0": "scalar_load",
        "s_barrier": "barrier",
        "s_waitcnt vmcnt(0)": "wait",
        "s_cbranch_scc1 5": "branch",
        "s_add_u32 s0, s0, s4": "scalar",
        "s_mul_hi_u32 s4, s5, s4": "scalar",
        "v_add_co_u32_e32 v0, vcc, v1, v2": "address",
        "v_addc_co_u32_e64 v0, vcc, v1, v2, vcc": "address",
        "v_lshl_add_u64 v[0:1], v[2:3], 0, v[4:5]": "address",
        "v_mad_u64_u32 v[0:1], s[0:1], v2, v3, v[4:5]": "address",
        "v_lshlrev_b32_e32 v1, 16, v2": "address",
        "v_and_b32_e32 v1, 0xffff0000, v2": "address",
        "v_fma_f32 v1, v2, v3, v4": "vector",
        "v_pk_mul_f32 v[0:1], v[2:3], v[4:5]": "vector",
        "v_max_f32_e32 v1, v2, v3": "vector",
        "v_cvt_f32_f16_e32 v1, v2": "vector",
    },
    "dcu": {"v_mmac_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]": "matrix"},
    "nvidia": {
        "HMMA.16816.F32.BF16 R4, R8, R12, R4": "matrix",
        "QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24": "matrix",
        "LDG.E.128 R4, desc[UR4][R2.64]": "load_16",
        "@P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]": "load_16",
        "LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]": "load_16",
        "LDG.E.U8 R4, desc[UR4][R2.64]": "load_narrow",
        "STG.E.128 desc[UR4][R2.64], R4": "store",
        "ATOMG.E.CAS.64.STRONG.GPU PT, R2, desc[UR4][R2], R4, R6": "atomic",
        "LDL.64 R2, [R1]": "scratch",
        "STL [R1+0x8], R2": "scratch",
        "LDS.128 R4, [R2]": "lds",
        "SHFL.BFLY PT, R3, R2, 0x1, 0x1f": "lane",
        "@!UP0 VOTEU.ANY UR4, UPT, PT": "lane",
        "MUFU.EX2 R1, R2": "exp2",
        "MUFU.RCP R1, R2": "vector",
        "ULDC.64 UR4, c[0x0][0x208]": "scalar_load",
        "BAR.SYNC.DEFER_BLOCKING 0x0": "barrier",
        "LDGDEPBAR": "wait",
        "@!P0 BRA `(.L_x_0)": "branch",
        "UIADD3 UR4, UR4, 0x1, URZ": "scalar",
        "IMAD.WIDE R4, R6, 0x4, R4": "address",
        "ISETP.GE.AND P0, PT, R1, UR4, PT": "address",
        "LEA.HI.X R5, R2, R3, R4, 0x1, P0": "address",
        "FFMA.FTZ R1, R2, R3, R4": "vector",
        "HFMA2.BF16_V2 R1, R2, R3, R4": "vector",
    },
    "cpu": {
        "vdpbf16ps (%rax){1to16},%zmm1,%zmm2": "matrix",
        "vfmadd231ps 0x20(%rax),%ymm1,%ymm2": "fma",
        "vfmadd231ps %ymm0,%ymm1,%ymm2": "fma",
        "vmovups (%rax),%ymm0": "load_16",
        "vpmovzxwd (%rax,%rcx,2),%zmm0{%k1}{z}": "load_16",
        "vmovups %ymm0,(%rax)": "store",
        "vmovaps %ymm0,%ymm1": "vector",
        "vaddps %ymm0,%ymm1,%ymm2": "vector",
        "vpermilps $0xb1,%ymm0,%ymm1": "lane",
        "jne    1120 <k>": "branch",
        "call   *%rax": "branch",
        "nopw   0x0(%rax,%rax,1)": "wait",
        "add    $0x40,%rax": "scalar",
    },
}


@pytest.mark.parametrize(
    ("family", "text", "wanted"),
    [(family, text, wanted) for family, table in SAMPLES.items() for text, wanted in table.items()],
)
def test_classes(family, text, wanted):
    assert classify(text, family) == wanted


def test_every_class_of_every_table_is_tried():
    for family, table in TABLES.items():
        if family != "dcu":
            assert {name for name, _ in table} == set(SAMPLES[family].values())


def test_counts_keep_the_order_of_the_table():
    texts = ["v_fma_f32 v1, v2, v3, v4", "s_nop 0", "v_exp_f32_e32 v1, v2", "v_fma_f32 v1, v1, v1, v1", "?"]
    counts = census([Instruction(i, text) for i, text in enumerate(texts)], "amd")
    assert list(counts.items()) == [("exp2", 1), ("wait", 1), ("vector", 2), ("other", 1)]
