"""The text of each disassembler as functions.

`amd` reads llvm-objdump, `amd_assembly` what a compiler for AMD writes with -S, `nvidia` nvdisasm -c or
cuobjdump -sass, `cpu` GNU or LLVM objdump for x86-64. What a parser does not know as a branch falls through;
calls are no branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgen.inspect.code import Function, Instruction

_AMD_FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_AMD_LINE = re.compile(r"^\s+(\S.*?)\s*// ([0-9A-F]+): [0-9A-F ]+(?:<([^>+]+)(?:\+0x([0-9a-f]+))?>)?$")
_AMD_ENDS = ("s_endpgm", "s_setpc_b64", "s_branch")

_ASM_FUNCTION = re.compile(r"^([A-Za-z_]\w*):\s*; @")
_ASM_LABEL = re.compile(r"^(\.L\w+):")
_ASM_LINE = re.compile(r"^\s+([a-z]\S*(?:\s+[^;\s][^;]*?)?)\s*(?:;.*)?$")
_ASM_BRANCH = re.compile(r"^s_c?branch\S*\s+(\.L\w+)$")

_NV_FUNCTION = re.compile(r"^(?:\.text\.(\S+):|\s+Function : (\S+))$")
_NV_LABEL = re.compile(r"^(\.L\S*):")
_NV_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_NV_BRANCH = re.compile(r"^(?:@!?U?P\w+ )?(?:BRA|JMP)\S*\s(?:.*?)(?:`\((\S+?)\)|(0x[0-9a-f]+))")
_NV_ENDS = re.compile(r"^(EXIT|RET|BRX|JMX|JMP|KILL)\b|^BRA\s+(`\(|0x)")

_CPU_FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_CPU_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$")
_CPU_JUMP = re.compile(r"^(?:(?:notrack|bnd|data16) )*j\w+\s+(?:0x)?([0-9a-f]+)\b")
_CPU_ENDS = re.compile(r"^(?:(?:notrack|bnd|repz|data16) )*(jmp|ret|ud2|hlt)")


def amd(text: str) -> tuple[Function, ...]:
    """llvm-objdump -d of an AMD or DCU code object; targets come from the symbol at the line's end."""
    functions = []
    for name, start, lines in _split(text, _AMD_FUNCTION):
        found = []
        for line in lines:
            match = _AMD_LINE.match(line)
            if match is None:
                continue
            words, address, symbol, offset = match.groups()
            mnemonic = words.split(None, 1)[0]
            branch = mnemonic == "s_branch" or mnemonic.startswith("s_cbranch")
            target = start + int(offset or "0", 16) if branch and symbol == name else None
            found.append(Instruction(int(address, 16), words, target, mnemonic not in _AMD_ENDS))
        functions.append(Function(name, tuple(found)))
    return tuple(functions)


def amd_assembly(text: str) -> tuple[Function, ...]:
    """Assembly text of AMD; addresses are the places of instructions, 4 apart."""
    functions: list[Function] = []
    name, lines = "", list[str]()
    for line in text.splitlines():
        if match := _ASM_FUNCTION.match(line):
            name, lines = match[1], []
        elif name and line.startswith(".Lfunc_end"):
            functions.append(Function(name, tuple(_assembled(lines))))
            name = ""
        else:
            lines.append(line)
    return tuple(functions)


def _assembled(lines: list[str]) -> Iterator[Instruction]:
    labels: dict[str, int] = {}
    found: list[str] = []
    for line in lines:
        if label := _ASM_LABEL.match(line):
            labels[label[1]] = 4 * len(found)
        elif match := _ASM_LINE.match(line):
            found.append(" ".join(match[1].split()))
    for place, words in enumerate(found):
        branch = _ASM_BRANCH.match(words)
        target = labels.get(branch[1]) if branch else None
        yield Instruction(4 * place, words, target, words.split(None, 1)[0] not in _AMD_ENDS)


def nvidia(text: str) -> tuple[Function, ...]:
    """SASS. A predicate in front makes any branch or exit conditional."""
    functions: list[Function] = []
    name, lines = "", list[str]()
    for line in [*text.splitlines(), ".text.:"]:
        match = _NV_FUNCTION.match(line)
        if match is None and line != ".text.:":
            lines.append(line)
            continue
        if name:
            functions.append(Function(name, tuple(_sass(lines))))
        name, lines = (match[1] or match[2] if match else ""), []
    return tuple(functions)


def _sass(lines: list[str]) -> Iterator[Instruction]:
    labels: dict[str, int] = {}
    waiting: list[str] = []
    raw: list[tuple[int, str]] = []
    for line in lines:
        if label := _NV_LABEL.match(line):
            waiting.append(label[1])
        elif match := _NV_LINE.match(line):
            address = int(match[1], 16)
            labels.update(dict.fromkeys(waiting, address))
            waiting = []
            raw.append((address, match[2]))
    for address, words in raw:
        branch = _NV_BRANCH.match(words)
        target = None
        if branch:
            target = labels.get(branch[1]) if branch[1] else int(branch[2], 16)
        yield Instruction(address, words, target, not _NV_ENDS.match(words))


def cpu(text: str) -> tuple[Function, ...]:
    """objdump -d --no-show-raw-insn of x86-64 code. A jump out of the function is a tail call."""
    functions = []
    for name, _, lines in _split(text, _CPU_FUNCTION):
        found = []
        for line in lines:
            match = _CPU_LINE.match(line)
            if match is None:
                continue
            words = match[2].partition("#")[0].rstrip()
            jump = _CPU_JUMP.match(words)
            target = int(jump[1], 16) if jump else None
            found.append(Instruction(int(match[1], 16), words, target, not _CPU_ENDS.match(words)))
        functions.append(Function(name, tuple(found)))
    return tuple(functions)


def _split(text: str, head: re.Pattern[str]) -> Iterator[tuple[str, int, list[str]]]:
    """(name, address, lines) of each function."""
    name, start, lines = "", 0, list[str]()
    for line in text.splitlines():
        if match := head.match(line):
            if name:
                yield name, start, lines
            name, start, lines = match[2], int(match[1], 16), []
        else:
            lines.append(line)
    if name:
        yield name, start, lines
