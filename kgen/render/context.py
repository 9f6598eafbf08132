"""What a template sees: the variant's values by name, and a few functions over them.

p let op target symbol simulated     values; `p.head_dim`, `let.split`, `target.wave`
args_struct                          the text of `struct Args`
abi                                  version of the argument block
errors                               error codes by name, `errors.block_id`
ctype(dtype)                         the C++ type, `kgen::bf16`
sizeof(dtype)                        bytes of an element
k_order v_order                      axis orders of the caches (only with a known layout)
index(tensor, axis=place, ...)       an element offset, simplified
extent(tensor)                       one more than the largest element offset
kernels                              the launches of a GPU variant: symbol, x, y, z, block, boxes
boxes                                tensors that come in boxes, parameters of the first kernel: name, map
dynamic_lds                          bytes of shared memory that come with the launch; 0: it declares them
products(dtype)                      the matrix instruction and plans of both products; None without one
matrix_form(dtype, turned=B, key_vector=N, value_vector=N, tiles=T)
                                     the same as counts and C++ places; an error without one. B: whether P
                                     is turned between the products. N: elements of K, V read at once, where
                                     not 16 bytes. T: tiles of tokens at once
variant_args                         arguments of the mask and score: name, axis, ctype, word
mask_expr(q=, kv=, head=, batch=)    whether a pair is visible, as C++; empty where all are
score_expr(s=, q=, kv=, ...)         the score in natural units; empty where it is s
segments(q_lo=, q_hi=, kv_end=, ...) the loops over keys a tile of queries needs: steps, segments
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.manifest import ABI_VERSION, ERRORS, Scalar
from kgen.render.abi import args_struct
from kgen.render.index import Indexer
from kgen.render.launch import dynamic_lds, kernels_of
from kgen.render.masks import Masks
from kgen.render.matrix_form import matrix_form
from kgen.semantics import DTYPES
from kgen.variants.model import Variant
from kgen.variants.products import plan_products

CTYPES: Mapping[str, str] = {
    "f32": "float",
    "f16": "kgen::f16",
    "bf16": "kgen::bf16",
    "fp8_e4m3": "kgen::fp8_e4m3",
    "fp8_e5m2": "kgen::fp8_e5m2",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
}


class Names:
    """Values read as attributes; a name that is not there is an error that knows the nearest."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        self._what = what
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._values:
            hint = choice_hint(name, list(self._values))
            raise KgenError(Diagnostic("K335", f"there is no {self._what} '{name}'", hint=hint))
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)


def context(variant: Variant) -> dict[str, Any]:
    """The names of a template for one variant."""
    indexer, kernels = Indexer(variant), kernels_of(variant)
    names: dict[str, Any] = {
        "p": Names(f"parameter of {variant.op.name} named", variant.params),
        "let": Names(f"derived value of {variant.op.name} named", variant.lets),
        "op": variant.op,
        "target": variant.target,
        "simulated": variant.simulated,
        "symbol": variant.name,
        "args_struct": args_struct(variant.op, variant.mask),
        "abi": ABI_VERSION,
        "errors": Names("error code named", ERRORS),
        "kernels": kernels,
        "boxes": kernels[0].boxes if kernels else (),
        "dynamic_lds": dynamic_lds(variant),
        "ctype": ctype,
        "sizeof": lambda dtype: DTYPES[dtype],
        "index": indexer.index,
        "extent": indexer.extent,
        "products": partial(plan_products, variant.target),
        "matrix_form": lambda dtype, *, turned=False, **how: matrix_form(
            plan_products(variant.target, dtype, turned=turned), **how
        ),
    }
    if variant.mask is not None:
        masks = Masks(variant.mask)
        names["variant_args"] = masks.args
        names["mask_expr"], names["score_expr"], names["segments"] = masks.mask, masks.score, masks.segments
    for cache in ("k", "v"):
        order = indexer.order(cache)
        if order is not None:
            names[f"{cache}_order"] = order
    return names


def ctype(dtype: Scalar) -> str:
    """The C++ type of an element."""
    if dtype in CTYPES:
        return CTYPES[str(dtype)]
    hint = choice_hint(str(dtype), list(CTYPES))
    raise KgenError(Diagnostic("K335", f"'{dtype}' is no dtype", hint=hint))
