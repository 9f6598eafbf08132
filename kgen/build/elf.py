"""Just enough ELF64: the machine, the symbols a file defines, and the AMD kernel metadata.

Read from bytes, so that code for another machine, or instructions this one lacks, never runs.
Anything that does not fit raises `Malformed`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

MACHINES = {62: "x86-64", 183: "AArch64", 190: "CUDA", 224: "AMDGPU", 243: "RISC-V"}

_SYMTAB, _NOTE, _DYNSYM = 2, 7, 11
_AMDGPU_METADATA = 32
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class Malformed(ValueError):
    """The bytes are no ELF file kgen can read."""


@dataclass(frozen=True)
class Elf:
    """machine: a name of MACHINES, else its number. symbols: defined global ones -> bytes."""

    machine: str
    symbols: dict[str, int]
    metadata: dict[str, Any]  # amdhsa metadata; empty elsewhere


def read(data: bytes) -> Elf:
    """The file's machine, symbols and metadata. Raises Malformed."""
    try:
        return _read(data)
    except Malformed:
        raise
    except (struct.error, IndexError, ValueError, TypeError, RecursionError) as error:
        raise Malformed(f"cut short or damaged ({error})") from error


def _read(data: bytes) -> Elf:
    if data[:4] != b"\x7fELF":
        raise Malformed("not an ELF file")
    if data[4:6] != b"\x02\x01":
        raise Malformed("not a little-endian 64-bit ELF file")
    fields = _HEADER.unpack_from(data)
    machine, start, size, count = fields[2], fields[6], fields[11], fields[12]
    if not start or not count or start + size * count > len(data):
        raise Malformed("its section table is missing or cut off")
    sections = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
    symbols: dict[str, int] = {}
    metadata: dict[str, Any] = {}
    for section in sections:
        kind, offset, length, link = section[1], section[4], section[5], section[6]
        if kind in (_SYMTAB, _DYNSYM):
            names = sections[link]
            symbols |= _symbols(data[offset : offset + length], data[names[4] : names[4] + names[5]])
        elif kind == _NOTE:
            metadata |= _metadata(data[offset : offset + length])
    return Elf(MACHINES.get(machine, f"machine {machine}"), symbols, metadata)


def _symbols(table: bytes, names: bytes) -> dict[str, int]:
    """Global and weak symbols that are defined here and visible outside."""
    found = {}
    for name, info, other, section, _, size in _SYMBOL.iter_unpack(table):
        if section and info >> 4 in (1, 2) and other & 3 in (0, 3):
            found[names[name : names.index(b"\0", name)].decode()] = size
    return found


def _metadata(notes: bytes) -> dict[str, Any]:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size].rstrip(b"\0")
        at += 12 + _aligned(name_size)
        if kind == _AMDGPU_METADATA and name == b"AMDGPU":
            value, _ = _unpack(notes, at)
            return value if isinstance(value, dict) else {}
        at += _aligned(size)
    return {}


def _aligned(size: int) -> int:
    return (size + 3) & ~3


# How MessagePack writes its values: tag byte -> struct format of what follows.
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_NUMBERS |= {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_LISTS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    """The MessagePack value at `at`, and where the next one starts."""
    tag, at = data[at], at + 1
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        return struct.unpack_from(_NUMBERS[tag], data, at)[0], at + struct.calcsize(_NUMBERS[tag])
    if 0xA0 <= tag < 0xC0 or tag in _TEXTS:
        size, at = _size(data, at, tag, _TEXTS, 0x1F)
        return data[at : at + size].decode(), at + size
    if 0x90 <= tag < 0xA0 or tag in _LISTS:
        size, at = _size(data, at, tag, _LISTS, 0x0F)
        items: list[Any] = []
        for _ in range(size):
            value, at = _unpack(data, at)
            items.append(value)
        return items, at
    if 0x80 <= tag < 0x90 or tag in _MAPS:
        size, at = _size(data, at, tag, _MAPS, 0x0F)
        pairs: dict[Any, Any] = {}
        for _ in range(size):
            key, at = _unpack(data, at)
            pairs[key], at = _unpack(data, at)
        return pairs, at
    raise Malformed(f"metadata holds an unknown tag {tag:#x}")


def _size(data: bytes, at: int, tag: int, wide: dict[int, str], mask: int) -> tuple[int, int]:
    if tag not in wide:
        return tag & mask, at
    return struct.unpack_from(wide[tag], data, at)[0], at + struct.calcsize(wide[tag])
