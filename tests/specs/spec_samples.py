"""The variants that the spec-driven tests run: two samples of everything the CPU kernels cover.

The small sample takes minutes on two cores, compiling included; the large one is for `make test-full`.
Both hold every pair of values of their axes; the whole product would be tens of thousands.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

from kgen.fp8 import DTYPES as FP8
from kgen.manifest import Scalar
from kgen.spec.load import load_catalog
from kgen.targets.host import native_target
from kgen.testing import runner
from kgen.testing.case import Case
from kgen.testing.sample import Row, pairwise
from kgen.variants.matrix import make_variant
from kgen.variants.model import Variant

HEAD_DIMS = (32, 40, 64, 72, 80, 96, 112, 128, 192, 256)
BLOCK_SIZES = (1, 16, 32, 64, 128, 256)
LAYOUTS = ("bshd", "bhsd", "bhsd_vt", "vllm")
DTYPES = ("f32", "f16", "bf16")
GROUPS = (*range(1, 18), 32)
"""Query heads to a KV head; every one runs with every head_dim."""

CATALOG = load_catalog()

MASKS = tuple(sorted(CATALOG.ops["extend_attention"].variants))

Axes = Mapping[str, Sequence[Scalar]]

CACHE: Axes = {"dtype": DTYPES, "head_dim": HEAD_DIMS, "block_size": BLOCK_SIZES, "layout": LAYOUTS}
ATTENTION: Axes = {**CACHE, "partition_size": (0, 256, 512)}
SMALL: Mapping[str, Axes] = {
    "paged_attention": {
        **ATTENTION,
        "reuse_kv_times": (1, 3, 4, 8, 16),
        "variant": ("causal", "sliding", "document", "softcap", "alibi"),
    },
    "extend_attention": {
        "dtype": DTYPES,
        "head_dim": (40, 128),
        "block_size": (1, 16, 64),
        "layout": ("bshd", "bhsd_vt", "vllm"),
        "variant": MASKS,
    },
    "merge_states": {"dtype": DTYPES, "head_dim": (32, 40, 128, 256)},
    "reshape_and_cache": {**CACHE, "head_dim": (32, 40, 72, 256)},
    "copy_blocks": {},
    "swap_blocks": {},
}
LARGE: Mapping[str, Axes] = {
    "paged_attention": {
        **ATTENTION,
        "reuse_kv_times": (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 128),
        "variant": MASKS,
    },
    "extend_attention": {**CACHE, "variant": MASKS},
    "merge_states": {"dtype": DTYPES, "head_dim": HEAD_DIMS},
    "reshape_and_cache": CACHE,
}
EIGHT: Mapping[str, Axes] = {
    "paged_attention": {
        "dtype": DTYPES,
        "kv_dtype": FP8,
        "head_dim": (40, 64, 112),
        "block_size": (1, 16),
        "layout": LAYOUTS,
        "partition_size": (0, 256),
        "reuse_kv_times": (1, 4, 16),
        "variant": ("causal", "sliding", "softcap"),
    },
    "extend_attention": {
        "dtype": DTYPES,
        "kv_dtype": FP8,
        "head_dim": (72, 128),
        "block_size": (1, 16),
        "layout": ("bshd", "vllm"),
        "variant": ("causal", "alibi"),
    },
    "reshape_and_cache": {
        "dtype": DTYPES,
        "kv_dtype": FP8,
        "head_dim": (40, 128),
        "block_size": (1, 16),
        "layout": LAYOUTS,
    },
}
"""Caches of 8-bit floats, in either sample."""


@functools.cache
def archs() -> tuple[str, ...]:
    """This machine's best target, and the one of any machine."""
    native = native_target(CATALOG)
    return tuple(dict.fromkeys((native, "cpu_generic")))


@functools.cache
def sample(large: bool) -> tuple[Variant, ...]:
    """The variants of one sample, by operator and name."""
    found: dict[str, Variant] = {}
    for op, axes in (*(LARGE if large else SMALL).items(), *EIGHT.items()):
        for params in pairwise({"arch": archs(), **axes}, _exists):
            made = variant(op, **params)
            found[made.name] = made
    return tuple(found[name] for name in sorted(found))


def _exists(row: Row) -> bool:
    """Whether groups of 16 codes make up a row of a packed cache."""
    packed = row.get("kv_dtype") in FP8 and row["layout"] == "vllm"
    return not packed or int(row["head_dim"]) % 16 == 0


def variant(op: str, **params: Scalar) -> Variant:
    """One variant that must be accepted; `arch` is this machine's where it is not given."""
    made = make_variant(CATALOG.ops[op], {"arch": archs()[0], **params}, CATALOG)
    assert isinstance(made, Variant), made
    return made


def cases(variants: Sequence[Variant]) -> list[Case]:
    """What their specs ask, and every group with every head_dim, dealt out over its variants."""
    return [case for made in variants for case in runner.cases(made)] + group_cases(variants)


def group_cases(variants: Sequence[Variant]) -> list[Case]:
    """The ragged case of some variant for each head_dim and group."""
    by_head_dim: dict[Scalar, list[Variant]] = {}
    for made in variants:
        if made.op.name == "paged_attention":
            by_head_dim.setdefault(made.params["head_dim"], []).append(made)
    found = []
    for same in by_head_dim.values():
        for group, made in zip(GROUPS, itertools.cycle(same), strict=False):
            ragged = next(case for case in runner.cases(made) if case.name.startswith("ragged"))
            values = {**ragged.values, "group": group}
            found.append(dataclasses.replace(ragged, name=f"group{group}", values=values))
    return found
