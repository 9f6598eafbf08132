"""The text of each disassembler."""

from kgen.inspect import parse

AMD = """
k.co:\tfile format elf64-amdgpu

Disassembly of section .text:

0000000000001600 <first>:
\ts_load_dwordx2 s[2:3], s[0:1], 0x0                         // 000000001600: C0060080 00000000
\ts_cbranch_scc1 3                                           // 000000001608: BF850003 <first+0x14>
\tv_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3]// 00000000160C: D3CD8000 04020902
\ts_branch 65530                                             // 000000001614: BF82FFFA <first>
\ts_endpgm                                                   // 000000001618: BF810000

0000000000001700 <second>:
\ts_endpgm                                                   // 000000001700: BF810000
"""
NVDISASM = """
\t.section\t.text.k,"ax",@progbits
        .global         k
k:
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 BRA `(.L_x_0) ;
        /*0030*/                   BRA `(.L_x_1) ;
.L_x_0:
        /*0040*/               @P1 EXIT ;
        /*0050*/                   BRA.DIV UR4, `(.L_x_2) ;
        /*0060*/                   EXIT ;
.L_x_2:
        /*0070*/                   WARPSYNC.COLLECTIVE R5, `(.L_x_3) ;
.L_x_3:
        /*0080*/                   BRA `(.L_x_2) ;
.L_x_9:
"""
CUOBJDUMP = """
\t\tFunction : k
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   MOV R1, c[0x0][0x28] ;              /* 0x00000a0000017a02 */
                                                                       /* 0x000fe40000000f00 */
        /*0010*/              @P0 BRA 0x0 ;                            /* 0xfffffff000007947 */
        /*0020*/                   EXIT ;                              /* 0x000000000000794d */
\t\t..........
"""
CPU = """
k.so:     file format elf64-x86-64

0000000000001120 <k>:
    1120:\tvmovups (%rdi,%rax,1),%ymm0
    1125:\tnotrack jne 1120 <k>
    1127:\tjmp    1200 <other+0x10>
    112c:\tlea    0x2ed5(%rip),%rdi        # 4008 <data>
    1133:\tret
"""


def flow(function):
    return [(i.address, i.target, i.falls) for i in function.instructions]


def test_amd():
    first, second = parse.amd(AMD)
    assert (first.name, second.name) == ("first", "second")
    assert flow(first) == [
        (0x1600, None, True), (0x1608, 0x1614, True), (0x160C, None, True), (0x1614, 0x1600, False),
        (0x1618, None, False),
    ]  # fmt: skip
    assert first.instructions[2].text == "v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3]"
    assert first.instructions[2].mnemonic == "v_mfma_f32_16x16x16_f16"


def test_nvdisasm():
    (kernel,) = parse.nvidia(NVDISASM)
    assert kernel.name == "k"
    assert flow(kernel) == [
        (0x00, None, True), (0x10, None, True), (0x20, 0x40, True), (0x30, 0x10, False), (0x40, None, True),
        (0x50, 0x70, True), (0x60, None, False), (0x70, None, True), (0x80, 0x70, False),
    ]  # fmt: skip


def test_cuobjdump():
    (kernel,) = parse.nvidia(CUOBJDUMP)
    assert kernel.name == "k"
    assert flow(kernel) == [(0, None, True), (0x10, 0, True), (0x20, None, False)]


def test_cpu():
    (function,) = parse.cpu(CPU)
    assert flow(function) == [
        (0x1120, None, True), (0x1125, 0x1120, True), (0x1127, 0x1200, False), (0x112C, None, True),
        (0x1133, None, False),
    ]  # fmt: skip
    assert function.instructions[3].text == "lea    0x2ed5(%rip),%rdi"


def test_text_of_something_else():
    for read in (parse.amd, parse.nvidia, parse.cpu):
        assert read("not a disassembly\n") == ()


ASSEMBLY = """
\t.text
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx906"
first:                                  ; @first
; %bb.0:
\ts_load_dwordx2 s[2:3], s[0:1], 0x0   ; loads
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\t;;#ASMSTART
\tv_mmac_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]
\t;;#ASMEND
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel first
.Lfunc_end0:
\t.size\tfirst, .Lfunc_end0-first
second:                                 ; @second
\ts_endpgm
.Lfunc_end1:
"""


def test_assembly_of_amd():
    first, second = parse.amd_assembly(ASSEMBLY)
    assert (first.name, second.name) == ("first", "second")
    assert [i.text for i in first.instructions] == [
        "s_load_dwordx2 s[2:3], s[0:1], 0x0",
        "v_mmac_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]",
        "s_cbranch_scc1 .LBB0_1",
        "s_endpgm",
    ]
    assert [i.target for i in first.instructions] == [None, None, 4, None]
    assert [i.falls for i in first.instructions] == [True, True, True, False]
