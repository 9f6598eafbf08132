"""specs/benches/*.yaml: the calls a benchmark measures, as a grid of workloads, heads and axes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kgen.diagnostics import Collector, Source, Span, choice_hint
from kgen.fp8 import DTYPES as FP8
from kgen.manifest import Scalar
from kgen.semantics import DTYPES
from kgen.spec.catalog import Catalog
from kgen.spec.check import check_expr
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.reader import Fields, as_int, check_name, describe, expression
from kgen.spec.scope import Scope, Symbol
from kgen.spec.types import BOOL, INT, Type
from kgen.syntax.ast import Expr
from kgen.syntax.parser import parse_expr
from kgen.syntax.yaml import BadNode, Entry, Node, ScalarNode

FLOAT_TYPES = ("f32", "f16", "bf16")
KV_TYPES = (*FLOAT_TYPES, *FP8)
LONGEST = 2**31 - 1
T = TypeVar("T")


@dataclass(frozen=True)
class Workload:
    """Rows of a call: `batch` of them, of `context` keys each, or where `ragged` of 1 to `context` keys,
    drawn uniformly with `seed`."""

    name: str
    batch: int
    context: int
    ragged: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Heads:
    """Query heads, KV heads and elements of a head."""

    name: str
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class BenchCell:
    """One call of a grid."""

    workload: Workload
    heads: Heads
    dtype: str
    layout: str
    block_size: int
    kv_dtype: str = ""  # where it is not that of the queries

    @property
    def name(self) -> str:
        """Workload, heads and axes in one line."""
        heads = self.heads
        sizes = f"{heads.heads}/{heads.kv_heads}x{heads.head_dim}"
        dtypes = f"{self.dtype} kv{self.kv_dtype}" if self.kv_dtype else self.dtype
        return f"{self.workload.name} {sizes} {dtypes} {self.layout} p{self.block_size}"

    def names(self) -> Mapping[str, Scalar]:
        """What expressions over cells know of this one."""
        return {
            "workload": self.workload.name,
            "batch": self.workload.batch,
            "context": self.workload.context,
            "ragged": self.workload.ragged,
            "heads": self.heads.heads,
            "kv_heads": self.heads.kv_heads,
            "head_dim": self.heads.head_dim,
            "dtype": self.dtype,
            "kv_dtype": self.kv_dtype or self.dtype,
            "layout": self.layout,
            "block_size": self.block_size,
        }


@dataclass(frozen=True)
class BenchSpec:
    """A grid: every workload with all heads and every value of the axes. `means` are the cells that a
    geometric mean is taken over, by its name."""

    name: str
    doc: str
    workloads: tuple[Workload, ...]
    heads: tuple[Heads, ...]
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    block_sizes: tuple[int, ...]
    means: Mapping[str, Expr]
    kv_dtypes: tuple[str, ...] = ()  # none: those of the queries

    def cells(self) -> tuple[BenchCell, ...]:
        """Every cell, heads by heads and workload by workload."""
        axes = itertools.product(
            self.heads,
            self.workloads,
            self.dtypes,
            self.kv_dtypes or ("",),
            self.layouts,
            self.block_sizes,
        )
        return tuple(
            BenchCell(work, heads, dtype, layout, size, kv if kv != dtype else "")
            for heads, work, dtype, kv, layout, size in axes
        )


def read_bench(node: Node, catalog: Catalog, found: Collector) -> BenchSpec:
    """The grid of one file. Every fault goes to `found`."""
    needed = ("bench", "workloads", "heads", "axes")
    top = Fields(node, "a grid of benchmarks", found, required=needed, optional=("doc", "means"))
    workloads = [_workload(entry, found) for entry in top.entries("workloads")]
    heads = [_heads(entry, found) for entry in top.entries("heads")]
    for key in ("workloads", "heads"):
        if top.node(key) is not None and not top.entries(key):
            found.add("K214", f"'{key}' is empty", top.where(key), "give at least one")
    axes = top.node("axes")
    fields = Fields(
        axes or BadNode(top.span),
        "'axes'",
        found,
        required=("dtype", "layout", "block_size"),
        optional=("kv_dtype",),
        at=_key(top),
    )
    layouts = _words(fields, "layout", tuple(catalog.layouts))
    scope = cell_scope([work.name for work in workloads], tuple(catalog.layouts))
    return BenchSpec(
        name=top.name("bench", "a grid"),
        doc=top.text("doc"),
        workloads=tuple(workloads),
        heads=tuple(heads),
        dtypes=_words(fields, "dtype", FLOAT_TYPES),
        kv_dtypes=_words(fields, "kv_dtype", KV_TYPES),
        layouts=layouts,
        block_sizes=_sizes(fields),
        means=_means(top, scope, found),
    )


def cell_scope(workloads: list[str], layouts: tuple[str, ...]) -> Scope:
    """What an expression over cells may speak of."""
    kinds = {
        "workload": Type("enum", tuple(workloads)),
        "dtype": Type("dtype", tuple(DTYPES)),
        "kv_dtype": Type("dtype", tuple(DTYPES)),
        "layout": Type("layout", layouts),
        "ragged": BOOL,
    }
    ints = ("batch", "context", "heads", "kv_heads", "head_dim", "block_size")
    return {name: Symbol(kind, "a cell") for name, kind in {**kinds, **dict.fromkeys(ints, INT)}.items()}


def cell_filter(text: str, bench: BenchSpec, catalog: Catalog) -> Expr:
    """A condition on cells, as a command line gives it. Raises KgenError (K1xx, K2xx) at its place."""
    found = Collector()
    expr = parse_expr(text, Span(Source("--only", text), 1, 1, 1, len(text) + 1))
    scope = cell_scope([work.name for work in bench.workloads], tuple(catalog.layouts))
    check_expr(expr, scope, found, BOOL)
    found.check()
    return expr


def holds(condition: Expr, cell: BenchCell) -> bool:
    """Whether a cell is one of those a condition means."""
    return bool(evaluate_expr(condition, cell.names()))


def _key(top: Fields) -> Span | None:
    return top.keys["axes"].span if "axes" in top.keys else None


def _workload(entry: Entry, found: Collector) -> Workload:
    check_name(entry.key, "a workload", found)
    fields = Fields(
        entry.value,
        "a workload",
        found,
        required=("batch", "context"),
        optional=("ragged", "seed"),
        at=entry.key.span,
    )
    if "seed" in fields and not fields.boolean("ragged"):
        found.add("K202", "only lengths of a ragged workload are drawn", fields.where("seed"), "ragged: true")
    return Workload(
        name=entry.key.text,
        batch=_count(fields, "batch"),
        context=_count(fields, "context"),
        ragged=fields.boolean("ragged"),
        seed=fields.integer("seed", 0, low=0) or 0,
    )


def _heads(entry: Entry, found: Collector) -> Heads:
    check_name(entry.key, "heads", found)
    needed = ("heads", "kv_heads", "head_dim")
    fields = Fields(entry.value, "an entry of 'heads'", found, required=needed, at=entry.key.span)
    read = Heads(entry.key.text, *(_count(fields, key) for key in needed))
    if read.kv_heads and read.heads % read.kv_heads:
        message = f"{read.heads} query heads are no multiple of {read.kv_heads} KV heads"
        found.add("K213", message, fields.where("heads"))
    return read


def _count(fields: Fields, key: str) -> int:
    value = fields.integer(key, low=1) or 0
    if value > LONGEST:
        fields.found.add("K218", f"'{key}' must be below 2^31; found {value}", fields.where(key))
    return value


def _words(fields: Fields, key: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    words: list[str] = []
    for item in fields.items(key, filled=True):
        text = item.text if isinstance(item, ScalarNode) else ""
        if text in choices:
            _once(words, text, item, fields.found)
        elif not isinstance(item, BadNode):
            hint = choice_hint(text, list(choices))
            fields.found.add("K204", f"{describe(item)} is no {key}", item.span, hint)
    return tuple(words)


def _sizes(fields: Fields) -> tuple[int, ...]:
    sizes: list[int] = []
    for item in fields.items("block_size", filled=True):
        size = as_int(item)
        if size is not None and size > 0:
            _once(sizes, size, item, fields.found)
        elif not isinstance(item, BadNode):
            message = f"'block_size' is a list of whole numbers above 0; found {describe(item)}"
            fields.found.add("K203", message, item.span)
    return tuple(sizes)


def _once(values: list[T], value: T, item: Node, found: Collector) -> None:
    if value in values:
        found.add("K215", f"{describe(item)} is listed twice", item.span)
    else:
        values.append(value)


def _means(top: Fields, scope: Scope, found: Collector) -> Mapping[str, Expr]:
    means: dict[str, Expr] = {}
    for entry in top.entries("means"):
        expr = expression(entry.value, found)
        if expr is not None:
            check_expr(expr, scope, found, BOOL)
            means[entry.key.text] = expr
    return means
