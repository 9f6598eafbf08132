"""The types of expressions, the fields of records, and what each function takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.spec.chip import FP8_CONVERSIONS, FP8_FLAVOURS, ROUNDINGS

WORDS = ("text", "enum", "dtype", "layout", "target", "variant")
"""Kinds whose values are words. `text` is a quoted word that has not met its type yet."""


@dataclass(frozen=True)
class Type:
    """kind: int, float, bool, one of WORDS, array, or bad (already reported).

    `choices` are the values a word can have, None where they are open; `element` and `axis`
    describe an array: `float[head]` is indexed by `head`.
    """

    kind: str
    choices: tuple[str, ...] | None = None
    element: Type | None = None
    axis: str = ""

    def __str__(self) -> str:
        if self.kind == "array":
            return f"{self.element}[{self.axis}]"
        return "a word" if self.kind == "text" else self.kind

    @property
    def numeric(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def word(self) -> bool:
        return self.kind in WORDS


INT, FLOAT, BOOL, BAD = Type("int"), Type("float"), Type("bool"), Type("bad")
NUMBER = Type("number")
FAMILIES = ("cpu", "amd", "dcu", "nvidia")
COMPILERS = ("cxx", "hip", "nvcc")

RECORDS: Mapping[str, Mapping[str, Type]] = {
    "target": {
        "name": Type("target"),
        "family": Type("enum", FAMILIES),
        "compiler": Type("enum", COMPILERS),
        "wave": INT,
        "vector_bits": INT,
        "lds_bytes": INT,
        "registers": INT,
        "compute_units": INT,
        "max_threads": INT,
        "lds_banks": INT,
        "f16_matrix": BOOL,
        "bf16_matrix": BOOL,
        "tile_reads": BOOL,
        "crossed_reads": BOOL,
        "box_copies": BOOL,
        "group_products": BOOL,
        "bf16_rounding": Type("enum", ROUNDINGS),
        "fp8": Type("enum", FP8_FLAVOURS),
        "fp8_conversion": Type("enum", FP8_CONVERSIONS),
    },
    "layout": {
        "k_known": BOOL,
        "v_known": BOOL,
        "k_inner": Type("enum", ("dim", "token", "inner", "unknown")),
        "v_inner": Type("enum", ("dim", "token", "inner", "unknown")),
    },
}
"""The fields of the kinds that have some."""


@dataclass(frozen=True)
class Signature:
    """`args` are the types taken, the last one repeated when `variadic`; `result` None means
    int when every argument is an int, else float."""

    args: tuple[Type, ...]
    result: Type | None
    variadic: bool = False

    @property
    def arity(self) -> str:
        count = len(self.args)
        if self.variadic:
            return f"{count} or more arguments"
        return f"{count} argument" + ("s" if count != 1 else "")

    def __str__(self) -> str:
        listed = ", ".join(str(arg) for arg in self.args)
        return f"{listed}, ..." if self.variadic else listed

    def accepts(self, count: int) -> bool:
        return count == len(self.args) or (self.variadic and count >= len(self.args))


SIGNATURES: Mapping[str, Signature] = {
    "min": Signature((NUMBER, NUMBER), None, variadic=True),
    "max": Signature((NUMBER, NUMBER), None, variadic=True),
    "abs": Signature((NUMBER,), None),
    "ceil_div": Signature((INT, INT), INT),
    "align": Signature((INT, INT), INT),
    "floor": Signature((FLOAT,), INT),
    "ceil": Signature((FLOAT,), INT),
    "float": Signature((NUMBER,), FLOAT),
    "sqrt": Signature((FLOAT,), FLOAT),
    "exp": Signature((FLOAT,), FLOAT),
    "exp2": Signature((FLOAT,), FLOAT),
    "log": Signature((FLOAT,), FLOAT),
    "log2": Signature((FLOAT,), FLOAT),
    "tanh": Signature((FLOAT,), FLOAT),
    "sizeof": Signature((Type("dtype"),), INT),
}


def accepts(wanted: Type, given: Type) -> bool:
    """Whether a value of `given` can stand where `wanted` is expected."""
    if "bad" in (wanted.kind, given.kind):
        return True
    if wanted.kind == "number":
        return given.numeric
    if wanted.kind == "float":
        return given.numeric
    if wanted.word and given.kind == "text":
        return True
    return wanted.kind == given.kind


def join(left: Type, right: Type) -> Type | None:
    """The type of a value that is one or the other; None when there is none."""
    if "bad" in (left.kind, right.kind):
        return BAD
    if left.numeric and right.numeric:
        return FLOAT if "float" in (left.kind, right.kind) else INT
    if left.word and right.word and (left.kind == right.kind or "text" in (left.kind, right.kind)):
        kind = right.kind if left.kind == "text" else left.kind
        if left.choices is None or right.choices is None:
            return Type(kind)
        return Type(kind, tuple(dict.fromkeys(left.choices + right.choices)))
    return left if left == right else None


def article(given: Type | str) -> str:
    """`an int`, `a dtype`."""
    text = str(given)
    if text.startswith("a "):
        return text
    return f"an {text}" if text[0] in "aei" else f"a {text}"
