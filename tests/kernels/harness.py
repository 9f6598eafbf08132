"""Kernels by their C interface: render a variant, compile it, fill an argument block, call it.

Nothing of dispatch is used, so that what fails here is a kernel. A kernel is compiled once and kept
beside the other kernels of the session.
"""

import ctypes
import hashlib
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kgen import paths
from kgen.layout import TensorOrder
from kgen.manifest import ABI_VERSION, Scalar
from kgen.render.emit import render
from kgen.spec.catalog import Catalog
from kgen.spec.load import load_catalog
from kgen.targets.host import best_target, host_features
from kgen.variants.matrix import make_variant
from kgen.variants.model import Variant
from kgen.variants.policy import argument_words

ARITHMETIC = ("-fno-math-errno", "-ffp-contract=fast")
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-fvisibility=hidden",
)
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# What a wide target does, without its instructions: runs on any host.
WIDE = ("-DKGEN_LANES=16", "-DKGEN_BF16_DOTS")
NARROW = ("-DKGEN_LANES=4",)


@cache
def shipped() -> Catalog:
    return load_catalog()


@cache
def native() -> str:
    return best_target(shipped().targets, host_features())


@dataclass(frozen=True)
class Kernel:
    """A compiled variant. `call` answers its code and the four words of its error; arguments that only
    some variants have may be left out."""

    variant: Variant
    path: Path

    def call(self, values: Mapping[str, int | float], threads: int = 1) -> tuple[int, list[int]]:
        words = argument_words(self.variant.op, self.variant.mask)
        error = np.zeros(4, np.int64)
        parallel, thread_num = _openmp() if threads > 1 else (0, 0)
        header = {
            "abi": ABI_VERSION,
            "words": len(words),
            "error": error.ctypes.data,
            "parallel": parallel,
            "thread_num": thread_num,
            "num_threads": threads,
        }
        scales = {argument.name for argument in self.variant.op.arguments if argument.when is not None}
        absent = {word.name: 0 for word in words if word.argument in scales}
        block = np.array([_word({**header, **absent, **values}[word.name]) for word in words], np.int64)
        entry = ctypes.CDLL(str(self.path))[self.variant.name]
        code = entry(ctypes.c_void_p(block.ctypes.data))
        return code, error.tolist()


def kernel(op: str, flags: Sequence[str] = (), catalog: Catalog | None = None, **params: Scalar) -> Kernel:
    """The variant of the shipped spec (or of `catalog`) for this host, compiled with extra flags."""
    catalog = catalog or shipped()
    variant = make_variant(catalog.ops[op], {"arch": native(), **params}, catalog)
    assert isinstance(variant, Variant), variant
    return Kernel(variant, compiled(render(variant).text, (*variant.target.flags, *flags)))


def compiled(text: str, flags: Sequence[str]) -> Path:
    """The shared library of a source."""
    include = paths.include_dir()
    digest = hashlib.sha256(repr((text, flags)).encode())
    for header in sorted((include / "kgen" / "cpu").iterdir()):
        digest.update(header.read_bytes())
    folder = Path(os.environ["KGEN_CACHE_DIR"]) / "by-hand"
    folder.mkdir(exist_ok=True)
    path = folder / f"{digest.hexdigest()[:16]}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        command = [*os.environ.get("CXX", "g++").split(), *FLAGS, *WARNINGS, *flags, "-I", str(include)]
        command += ["-x", "c++", "-", "-o", str(made)]
        subprocess.run(command, input=text, text=True, check=True)
        made.replace(path)
    return path


def tensor(name: str, value: Tensor, *axes: str) -> dict[str, int]:
    """The words of a tensor argument; `axes` name all of its axes."""
    words = {name: value.data_ptr()}
    for axis, stride in list(zip(axes, value.stride(), strict=True))[:-1]:
        words[f"{name}_stride_{axis}"] = stride
    return words


def cache_words(name: str, value: Tensor, order: TensorOrder) -> dict[str, int]:
    """The words of a cache argument; the axes of `value` are those of `order`."""
    words = {name: value.data_ptr()}
    for axis in ("block", "head", "token", "dim"):
        words[f"{name}_stride_{axis}"] = value.stride(order.axes.index(axis))
    return words


def in_order(rows: Tensor, order: TensorOrder) -> Tensor:
    """[block, head, token, dim] as a contiguous cache in `order`."""
    width = order.width(rows.element_size())
    split = rows.unflatten(-1, (-1, width))
    names = ("block", "head", "token", "dim", "inner")
    axes = order.axes if order.split is not None else (*order.axes, "inner")
    moved = split.permute([names.index(axis) for axis in axes]).contiguous()
    return moved if order.split is not None else moved.squeeze(-1)


@cache
def _openmp() -> tuple[int, int]:
    library = ctypes.CDLL("libgomp.so.1")
    return tuple(  # type: ignore[return-value]
        ctypes.cast(library[name], ctypes.c_void_p).value for name in ("GOMP_parallel", "omp_get_thread_num")
    )


def _word(value: int | float) -> int:
    return struct.unpack("q", struct.pack("d", value))[0] if isinstance(value, float) else value
