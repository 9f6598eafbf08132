"""What an instruction of AMD's vector ISA, or a DCU's, reads and writes.

Registers are names: `v7`, `s4`, `a0`, `vcc`, `m0`, and `scc`, which most scalar arithmetic writes
without saying so. `exec` is left out: which lanes run feeds everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_REGISTER = re.compile(r"\b([vsa])(?:(\d+)|\[(\d+):(\d+)\])|\b(vcc|m0)\b")
_NO_RESULT = re.compile(
    r"s_(cmp|bitcmp|c?branch|waitcnt|nop|barrier|endpgm|sleep|setprio)|ds_write|\w+_store|\w+_atomic"
)
_TWO_RESULTS = re.compile(r"v_(add_co|sub_co|subrev_co|addc_co|subb_co|subbrev_co|mad_[ui]64|div_scale)")
_LOAD = re.compile(r"(?:(?:global|buffer|flat)_load|s_load|s_buffer_load)\w*")
_WRITES_SCC = re.compile(
    r"s_(add|sub|and|or|xor|not|andn2|orn2|nand|nor|xnor|lshl|lshr|ashr|bfe|min|max|abs|bcnt|absdiff|cmp|bitcmp|ff)"
)
_READS_SCC = re.compile(r"s_(addc|subb|cselect|cbranch_scc|cmov)")


@dataclass(frozen=True)
class Uses:
    """Registers. `address`: those by which a load finds memory; no other instruction has any."""

    writes: frozenset[str]
    reads: frozenset[str]
    address: frozenset[str] = frozenset()


@cache
def uses(text: str) -> Uses:
    """What one instruction reads and writes."""
    mnemonic, _, rest = text.partition(" ")
    operands = _split(rest)
    results = 0 if _NO_RESULT.match(mnemonic) else 2 if _TWO_RESULTS.match(mnemonic) else 1
    writes = set(_registers(operands[:results]))
    reads = set(_registers(operands[results:]))
    if _WRITES_SCC.match(mnemonic):
        writes.add("scc")
    if _READS_SCC.match(mnemonic):
        reads.add("scc")
    address = frozenset(reads) if _LOAD.match(mnemonic) else frozenset()
    return Uses(frozenset(writes), frozenset(reads), address)


def _registers(operands: list[str]) -> Iterator[str]:
    for operand in operands:
        for kind, one, first, last, named in _REGISTER.findall(operand):
            if named:
                yield named
            elif one:
                yield kind + one
            else:
                yield from (f"{kind}{number}" for number in range(int(first), int(last) + 1))


def _split(rest: str) -> list[str]:
    """The operands: commas between brackets part none."""
    return [operand.strip() for operand in re.split(r",(?![^\[]*\])", rest)] if rest else []
