"""Reading ELF files without running them."""

from __future__ import annotations

import struct

import pytest

from kgen.build import elf
from tests.build.build_samples import rendered


@pytest.fixture
def data(sample) -> bytes:
    (entry,) = sample.build(rendered("k", 5))
    return (sample.cache.root / entry.artefact).read_bytes()


def test_machine_and_symbols(data):
    file = elf.read(data)
    assert file.machine in ("x86-64", "AArch64", "RISC-V")
    assert file.symbols["k"] > 0
    assert "printf" not in file.symbols
    assert file.metadata == {}


@pytest.mark.parametrize("size", [0, 3, 40, 64, 1000, -1])
def test_what_is_cut_short_is_malformed(data, size):
    with pytest.raises(elf.Malformed):
        elf.read(data[:size])


def test_no_cut_or_flip_does_worse_than_malformed(data):
    for place in range(0, len(data), max(1, len(data) // 97)):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        for text in (data[:place], bytes(damaged)):
            try:
                elf.read(text)
            except elf.Malformed:
                continue


def test_other_formats_are_malformed():
    with pytest.raises(elf.Malformed, match="not an ELF file"):
        elf.read(b"#!/bin/sh\n" + bytes(100))
    with pytest.raises(elf.Malformed, match="little-endian 64-bit"):
        elf.read(b"\x7fELF\x01\x01" + bytes(100))


@pytest.mark.parametrize(
    ("packed", "value"),
    [
        (b"\x07", 7),
        (b"\xff", -1),
        (b"\xc0", None),
        (b"\xc3", True),
        (b"\xcd\x01\x00", 256),
        (b"\xd1\xff\xfe", -2),
        (b"\xcb" + struct.pack(">d", 1.5), 1.5),
        (b"\xa2hi", "hi"),
        (b"\xd9\x02hi", "hi"),
        (b"\x92\x01\xa1x", [1, "x"]),
        (b"\xdc\x00\x01\x05", [5]),
        (b"\x82\xa1a\x01\xa1b\x90", {"a": 1, "b": []}),
        (b"\xde\x00\x01\xa1a\xcc\xc8", {"a": 200}),
    ],
)
def test_metadata_values(packed, value):
    assert elf._unpack(packed, 0) == (value, len(packed))


def test_an_unknown_metadata_tag_is_malformed():
    with pytest.raises(elf.Malformed, match="0xc1"):
        elf._unpack(b"\xc1", 0)
