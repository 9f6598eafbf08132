"""Which instruction counts as what, by family of targets: tables of (class, pattern), first match wins.

A pattern is matched at the start of an instruction's text, an NVIDIA predicate taken off. Classes
whose name is the same mean the same on every family:

    matrix          products of a wave, or of vectors of dot products
    fma             fused multiply-adds of a CPU, with or without a load
    load_16         loads from global memory of 16 bytes a lane (CPU: of a whole vector)
    load_narrow     other loads from global memory
    store, atomic   writes to global memory
    lds             shared-memory reads and writes
    lane            exchange between lanes
    exp2            the exponential
    scratch         spilled registers
    accumulator     moves between vector and accumulator registers
    scalar          scalar or uniform arithmetic: addresses, loop counts
    scalar_load     scalar or constant loads
    address         integer arithmetic of each lane: addresses, masks, conversions by hand
    vector          the rest of each lane's arithmetic
    wait, barrier, branch
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from kgen.inspect.code import Instruction

Table = tuple[tuple[str, str], ...]

_INTEGER = (
    "add|sub|addc|mul|mad|lshl|lshr|ashr|and|or|xor|not|bfe|bfi|min|max|perm|align|cmp"  # and what begins so
)
_AMD: Table = (
    ("matrix", r"v_(mfma|smfmac|mmac|wmma)"),
    ("scratch", r"scratch_|buffer_(load|store)\S* .*\boff, s\[0:3\]"),
    ("load_16", r"(global|buffer|flat)_load_(dwordx4|b128)"),
    ("load_narrow", r"(global|buffer|flat)_load"),
    ("atomic", r"(global|buffer|flat)_atomic"),
    ("store", r"(global|buffer|flat)_store"),
    ("lane", r"ds_(bpermute|permute|swizzle)|v_(readlane|readfirstlane|writelane|permlane)|\S+_dpp\b"),
    ("lds", r"ds_"),
    ("exp2", r"v_exp_"),
    ("accumulator", r"v_accvgpr_"),
    ("scalar_load", r"s_(load|buffer_load|scratch_load)"),
    ("barrier", r"s_barrier"),
    ("wait", r"s_(waitcnt|nop|sleep|delay_alu|wait_)"),
    ("branch", r"s_(c?branch|endpgm|setpc|call)"),
    ("scalar", r"s_"),
    ("address", rf"v_({_INTEGER})\w*_(co_)?[uib]\d+"),
    ("vector", r"v_"),
)  # fmt: skip
_NVIDIA: Table = (
    ("matrix", r"(H|I|D|Q|B|O)?(MMA|GMMA)\b"),
    ("scratch", r"(LDL|STL)\b"),
    ("load_16", r"LDG\S*\.128|LDGSTS\S*\.128|UBLKCP|UTMALDG"),
    ("load_narrow", r"(LDG|LD|LDGSTS)\b"),
    ("atomic", r"(ATOM|ATOMG|RED|REDG)\b"),
    ("store", r"(STG|ST)\b"),
    ("lane", r"(SHFL|VOTE|VOTEU|REDUX|MATCH)\b"),
    ("lds", r"(LDS|LDSM|STS|STSM|ATOMS)\b"),
    ("exp2", r"MUFU\.EX2"),
    ("scalar_load", r"(LDC|ULDC|LDCU)\b"),
    ("barrier", r"(BAR|SYNCS|MEMBAR|FENCE)\b"),
    ("wait", r"(DEPBAR|LDGDEPBAR|WARPSYNC|NOP|YIELD|NANOSLEEP|WARPGROUP)\b"),
    ("branch", r"(BRA|BRX|JMP|JMX|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BMOV|KILL|ENDCOLLECTIVE)\b"),
    ("scalar", r"(U[A-Z0-9]+|S2UR|R2UR)\b"),
    ("address", r"(I[A-Z0-9]+|LEA|SHF|SHL|SHR|LOP3|PLOP3|PRMT|SGXT|BMSK|VIADD|VIMNMX|VABSDIFF|FLO|POPC)\b"),
    ("vector", r"[A-Z]"),
)
_MEMORY = r".*\([^)]*\)"
_SHUFFLES = "perm|shuf|unpck|pshuf|punpck|insert|extract|broadcast|pbroadcast|pack|align|movhl|movlh|blend"
_CPU: Table = (
    ("matrix", r"v(dpbf16ps|pdp\w+|dpph?ps)|tdp"),
    ("fma", r"vfn?m(add|sub)"),
    ("load_16", rf"v\w+ (?!.*mm\d+,{_MEMORY}$){_MEMORY}.*%[xyz]mm\d+(\{{.*)?$"),
    ("store", rf"v\w+ .*%[xyz]mm\d+,{_MEMORY}"),
    (
        "lane",
        r"v(perm|shuf|unpck|pshuf|punpck|insert|extract|broadcast|pbroadcast|pack|align|movhl|movlh|blend)",
    ),
    ("vector", r"v"),
    ("branch", r"(j|call|ret|notrack|bnd)"),
    ("wait", r"(nop|endbr|pause|data16|cs nop)"),
    ("scalar", r"."),
)

TABLES: Mapping[str, Table] = {"amd": _AMD, "dcu": _AMD, "nvidia": _NVIDIA, "cpu": _CPU}

WORK = ("matrix", "fma", "load_16", "load_narrow")
"""The classes by which the loop that matters is known: it reads and multiplies most."""

_PREDICATE = re.compile(r"@!?U?P\w+ ")


def census(instructions: Iterable[Instruction], family: str) -> dict[str, int]:
    """How many instructions of each class; classes without one are absent."""
    counts = Counter(classify(instruction.text, family) for instruction in instructions)
    order = [name for name, _ in TABLES[family]]
    return {name: counts[name] for name in (*order, "other") if counts[name]}


@cache
def classify(text: str, family: str) -> str:
    """The class of one instruction, `other` where no pattern matches."""
    bare = _PREDICATE.sub("", text, count=1)
    return next((name for name, pattern in _patterns(family) if pattern.match(bare)), "other")


@cache
def _patterns(family: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in TABLES[family])
