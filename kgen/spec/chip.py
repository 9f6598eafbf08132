"""What a GPU is beyond a wave and its limits (units, register files, memory, matrix instructions), and how
a target rounds.

Pure data with expressions; `kgen.targets` computes with it (lane maps, occupancy).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.diagnostics import Span
from kgen.syntax.ast import Expr

OPERANDS: Mapping[str, tuple[str, str]] = {"a": ("row", "k"), "b": ("k", "col"), "d": ("row", "col")}
"""The operands of D[m x n] = A[m x k] B[k x n] + D, and the axes of each, rows first."""

INPUTS: Mapping[str, int] = {
    "f32": 4,
    "tf32": 4,
    "f16": 2,
    "bf16": 2,
    "fp8": 1,
    "bf8": 1,
    "i8": 1,
}
"""Types of A and B -> bytes of an element. fp8 is e4m3 and bf8 e5m2, of the target's flavour."""

KERNEL_FIGURES = ("registers", "scalar_registers", "lds_bytes", "block_waves", "block_threads")
"""What an occupancy rule knows of a kernel, beside the figures of the chip."""


@dataclass(frozen=True)
class OperandSpec:
    """Where an instruction keeps an operand: the cell that element `e` of lane `lane` holds.

    `elements`, where the spec states it, is how many a lane holds.
    """

    row: Expr
    col: Expr
    span: Span
    elements: int | None = None


@dataclass(frozen=True, eq=False)
class InstructionSpec:
    """A matrix instruction of one wave. `builtins` are names to call it by, the preferred one
    first, with `tail` after the operands; `asm` is its mnemonic. `cycles`: after which a SIMD can
    start the next; 0: not known."""

    name: str
    span: Span
    dtype: str
    m: int
    n: int
    k: int
    operands: Mapping[str, OperandSpec]  # a, b, d
    asm: str
    builtins: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    cycles: int = 0


@dataclass(frozen=True)
class OccupancyRule:
    """Blocks a compute unit can hold as far as one resource goes."""

    name: str
    blocks: Expr
    span: Span


@dataclass(frozen=True)
class ChipSpec:
    """The GPU of one target. Sizes are bytes, counts of 32-bit registers, or counts."""

    figures: Mapping[str, int]  # by name, see FIGURES
    occupancy: tuple[OccupancyRule, ...]
    instructions: Mapping[str, InstructionSpec]
    load_bytes: tuple[int, ...]  # widths of a lane's load from global memory
    tile_reads: bool  # a wave can read 8 x 8 tiles of 16-bit elements of shared memory, also transposed
    crossed_reads: bool  # 16 bytes of it are read by lanes 0 to 3 with 20 to 23 and so on, not by 8 in a row
    box_copies: bool  # a copy engine brings boxes of a tensor into shared memory
    group_products: bool  # groups of four waves multiply what is in shared memory
    descriptor_word3: int | None  # of a 128-bit buffer descriptor; None: the chip has none


FIGURES: Mapping[str, int | None] = {
    "compute_units": None,
    "simds": None,  # of a compute unit
    "max_waves": None,  # that a SIMD holds
    "max_blocks": None,  # that a compute unit holds
    "max_threads": None,  # of a block
    "vector_file": None,  # registers of a SIMD lane, shared by the waves on it
    "vector_granule": None,  # they are given out so many at a time
    "scalar_file": 0,  # scalar registers of a SIMD; 0: the chip does not count them
    "scalar_granule": 1,
    "lds_file": None,  # bytes of a compute unit
    "lds_granule": None,
    "lds_static": 0,  # bytes a kernel can declare; what is above comes with the launch; 0: all
    "lds_reserved": 0,  # bytes of each block that the system keeps
    "lds_banks": None,
    "lds_bank_bytes": 4,
}
"""The figures of a chip, with what holds where a spec does not say; None: it must."""

ROUNDINGS = ("nearest_even", "half_up")
FP8_FLAVOURS = ("ocp", "fnuz", "none")
FP8_CONVERSIONS = ("hardware", "software")


@dataclass(frozen=True)
class NumberSpec:
    """How a target rounds and what 8-bit floats are to its kernels."""

    bf16_rounding: str = ROUNDINGS[0]
    fp8: str = "none"  # the flavour kernels read and write, see `kgen.fp8`; none: none
    fp8_conversion: str = "software"  # hardware: by instructions
