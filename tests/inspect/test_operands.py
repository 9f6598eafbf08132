"""What instructions of AMD read and write."""

import pytest

from kgen.inspect.operands import uses


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("v_add_u32_e32 v1, 0x8000, v2", "v1", "v2"),
        ("s_add_u32 s20, s48, s21", "s20 scc", "s48 s21"),
        ("s_addc_u32 s21, s1, s21", "s21 scc", "s1 s21 scc"),
        ("s_mul_hi_i32 s45, s44, s22", "s45", "s44 s22"),
        ("s_cmp_lt_u32 s70, s62", "scc", "s70 s62"),
        ("s_cselect_b32 s74, s70, 0", "s74", "s70 scc"),
        ("s_and_b64 vcc, exec, s[4:5]", "vcc scc", "s4 s5"),
        ("v_cmp_gt_i32_e64 s[0:1], s58, v52", "s0 s1", "s58 v52"),
        ("v_cndmask_b32_e32 v51, v105, v100, vcc", "v51", "v105 v100 vcc"),
        ("v_mad_u64_u32 v[0:1], s[2:3], v4, v5, v[6:7]", "v0 v1 s2 s3", "v4 v5 v6 v7"),
        ("v_pk_mul_f32 v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1]", "v2 v3", "v4 v5 v6 v7"),
        ("v_mfma_f32_16x16x16_f16 a[0:1], v[2:3], v[4:5], a[0:1]", "a0 a1", "v2 v3 v4 v5 a0 a1"),
        ("ds_write_b64 v4, v[0:1] offset:16", "", "v4 v0 v1"),
        ("global_store_dwordx2 v[0:1], v[2:3], off", "", "v0 v1 v2 v3"),
        ("s_waitcnt vmcnt(3)", "", ""),
        ("s_cbranch_scc1 12", "", "scc"),
    ],
)
def test_registers(text, writes, reads):
    found = uses(text)
    assert (found.writes, found.reads) == (set(writes.split()), set(reads.split()))
    assert not found.address


def test_what_a_load_finds_memory_by():
    load = uses("buffer_load_dwordx4 v[2:5], v0, s[8:11], s4 offen offset:64")
    assert load.writes == {"v2", "v3", "v4", "v5"}
    assert load.address == {"v0", "s8", "s9", "s10", "s11", "s4"}
    assert uses("s_load_dword s59, s[36:37], s1 offset:0x0").address == {"s36", "s37", "s1"}
    assert uses("global_load_dword v114, v113, s[26:27]").address == {"v113", "s26", "s27"}
