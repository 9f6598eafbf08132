"""Code objects of GPU variants, built by the real compilers, and what is in them."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kgen import api, paths
from kgen.diagnostics import KgenError
from kgen.inspect.code import Function
from kgen.inspect.disassemble import disassemble
from kgen.inspect.loops import Loop, find_loops
from kgen.inspect.report import kernel_report
from kgen.inspect.turn import Turn
from kgen.manifest import Entry
from kgen.variants.matrix import make_variant
from kgen.variants.model import Variant

OBJDUMP = "llvm-objdump-19"


def variant(arch: str, op: str = "paged_attention", **params) -> Variant:
    """A variant by its parameters; it must be accepted."""
    catalog = api.check()
    made = make_variant(catalog.op(op), {"arch": arch, **params}, catalog)
    assert isinstance(made, Variant), made
    return made


def built(made: Variant) -> Entry:
    (entry,) = api.build_variants([made], progress="quiet")
    return entry


def artefact(entry: Entry) -> Path:
    return paths.cache_dir() / entry.artefact


def instructions(entry: Entry, symbol: str) -> Counter[str]:
    """How often each instruction occurs in one kernel of an AMD code object."""
    command = [
        OBJDUMP,
        "-d",
        f"--mcpu={entry.target}",
        f"--disassemble-symbols={symbol}",
        str(artefact(entry)),
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Counter(re.findall(r"^\t([a-z_0-9]+)", text, re.MULTILINE))


def inner_loop(entry: Entry, symbol: str, family: str) -> Loop:
    """The loop of a kernel that reads and multiplies most, as `kgen inspect` picks it. Skips the test where
    no disassembler is installed."""
    function = _function(entry, symbol)
    report = kernel_report(symbol, [function], family)
    assert report.loop is not None
    return next(loop for loop in find_loops(function) if loop.header == report.loop.address)


def turn(entry: Entry, symbol: str) -> Turn:
    """A turn of that loop of an AMD kernel. Skips as inner_loop does."""
    return only_turn(symbol, (_function(entry, symbol),))


def only_turn(symbol: str, functions: tuple[Function, ...]) -> Turn:
    """A turn of the inner loop of one of these, which has one."""
    report = kernel_report(symbol, [function for function in functions if function.name == symbol], "amd")
    assert report.loop is not None and report.loop.turn is not None
    return report.loop.turn


def loop_with(entry: Entry, symbol: str, word: str) -> Loop:
    """The loop of a kernel whose own instructions have a word most often, and of several the shortest, which
    is an inner one. Skips as inner_loop does."""

    def order(loop: Loop) -> tuple[int, int]:
        own = texts(loop)
        return sum(word in text for text in own), -len(own)

    return max(find_loops(_function(entry, symbol)), key=order)


def texts_of(entry: Entry, symbol: str) -> list[str]:
    """All instructions of a kernel. Skips the test where no disassembler is installed."""
    return [instruction.text for instruction in _function(entry, symbol).instructions]


def _function(entry: Entry, symbol: str) -> Function:
    try:
        functions = disassemble(entry, artefact(entry))
    except KgenError as error:
        if " found" in error.diagnostics[0].message and not error.diagnostics[0].notes:
            pytest.skip(error.diagnostics[0].message)
        raise
    (function,) = (found for found in functions if found.name == symbol)
    return function


def texts(loop: Loop) -> list[str]:
    return [instruction.text for instruction in loop.own]


def has_amd() -> bool:
    return shutil.which("clang++-19") is not None and shutil.which(OBJDUMP) is not None


def has_nvcc() -> bool:
    return shutil.which("nvcc") is not None or Path("/usr/local/cuda/bin/nvcc").exists()
