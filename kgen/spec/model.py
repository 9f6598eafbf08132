"""The typed specs: what `check.py` makes of a file, and what every later room reads.

All frozen. Expressions are typed ASTs (`kgen.syntax.ast.Expr`) that keep their spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.diagnostics import Span
from kgen.layout import Layout
from kgen.manifest import Scalar
from kgen.semantics import DTYPES as DTYPES
from kgen.spec.chip import ChipSpec, NumberSpec
from kgen.spec.types import Type
from kgen.syntax.ast import Expr


@dataclass(frozen=True)
class Param:
    """A parameter of an operator. type: int, float, bool, enum, dtype, layout, target or variant.

    `values` (when listed) are the legal ones in spec order; `minimum`/`maximum` bound an int.
    `tag` formats the value into a variant's name; where `omit` holds the tag is left out. `named`: words
    for values of an int, which builds may write and names have in place of the tag.
    """

    name: str
    type: str
    span: Span
    tag: str
    values: tuple[Scalar, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    default: Expr | None = None
    omit: Expr | None = None
    doc: str = ""
    named: Mapping[str, int] = field(default_factory=dict)

    def spelt(self, value: Scalar) -> str:
        """A value as the names of variants show it: by its own name, or in the tag."""
        if isinstance(value, str):
            return self.tag.replace("{}", value)
        text = str(value).lower().replace("-", "m").replace(".", "p")
        return next((n for n, named in self.named.items() if named == value), self.tag.replace("{}", text))


@dataclass(frozen=True)
class Let:
    name: str
    expr: Expr
    span: Span


@dataclass(frozen=True)
class Require:
    """A rule a combination must satisfy; `because` is shown when it rejects one."""

    check: Expr
    because: str
    span: Span


@dataclass(frozen=True)
class AxisSpec:
    name: str
    size: Expr


@dataclass(frozen=True)
class ArgumentSpec:
    """A tensor, KV cache or scalar argument (see `kgen.manifest.ArgumentRule`)."""

    name: str
    kind: str  # tensor, cache, int, float
    span: Span
    dtype: str = ""  # a dtype, or the parameter that holds it
    axes: tuple[AxisSpec, ...] = ()
    cache: str = ""  # k or v
    access: str = "read"
    optional: bool = False
    workspace: Expr | None = None  # dispatch allocates it where this holds
    box: Expr | None = None  # rows or tokens that a copy engine brings at once; 0: none
    box_dims: Expr | None = None  # dims of each; None or 0: all
    zeroed: bool = False  # a workspace that kernels find as zeros, and leave as zeros
    when: Expr | None = None  # it is given where this holds, and only there
    because: str = ""  # why
    broadcast: bool = False  # one element may stand for all along an axis


@dataclass(frozen=True)
class FactSpec:
    """A run-time integer derived from shapes, scalars and parameters."""

    name: str
    expr: Expr
    span: Span


@dataclass(frozen=True)
class SelectSpec:
    """How a call chooses a free parameter (see `kgen.manifest.SelectRule`)."""

    param: str
    want: Expr
    pick: str
    span: Span
    default: str = ""
    policies: Mapping[str, Expr] | None = None
    env: str = ""


@dataclass(frozen=True)
class VariantSpec:
    """A mask/score variant: expressions over q, kv, head, batch, s and declared arguments.

    `guards` are what a call's arguments must satisfy, over those that are single values.
    `of_build`: defined by a build, for its own kernels."""

    name: str
    span: Span
    mask: Expr | None
    score: Expr | None = None
    args: Mapping[str, Type] = field(default_factory=dict)  # int, float, float[head], ...
    guards: tuple[Require, ...] = ()
    doc: str = ""
    of_build: bool = False


@dataclass(frozen=True)
class GridSpec:
    """One kernel launch. `name` is the family group, or the group and the kernel's suffix."""

    name: str
    x: Expr
    y: Expr
    z: Expr
    block: Expr
    when: Expr | None = None  # variants that need it; None: all
    lds: Expr | None = None  # bytes of shared memory, where not those of the variant


@dataclass(frozen=True)
class TestSpec:
    """One row of `tests`. Values are ints, floats, expressions over params, or lists of them; `places`
    are those of their keys."""

    __test__ = False
    name: str
    span: Span
    values: Mapping[str, object]
    when: Expr | None = None
    places: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class OpSpec:
    """An operator: one file of specs/ops."""

    name: str
    doc: str
    span: Span
    spec_hash: str  # sha256 of the file's text, of layouts.yaml and of masks.yaml
    templates: Mapping[str, str]  # family group (cpu, gpu) -> template path
    params: tuple[Param, ...]
    lets: tuple[Let, ...]  # in dependency order
    requires: tuple[Require, ...]
    arguments: tuple[ArgumentSpec, ...]
    facts: tuple[FactSpec, ...]
    guards: tuple[Require, ...]
    select: tuple[SelectSpec, ...]
    variants: Mapping[str, VariantSpec]
    grids: Mapping[str, GridSpec]
    tests: tuple[TestSpec, ...]
    layouts: Mapping[str, Layout]
    positions: Mapping[str, Expr] = field(default_factory=dict)  # how many heads, queries, ... arrays have

    def param(self, name: str) -> Param:
        """The parameter of that name. The checker has proved it exists."""
        return next(p for p in self.params if p.name == name)


@dataclass(frozen=True)
class BuildAxis:
    name: str
    values: tuple[Scalar, ...]
    span: Span
    value_spans: tuple[Span, ...]


@dataclass(frozen=True)
class BuildEntry:
    """One operator of a build and the axes whose product is its matrix."""

    op: str
    axes: tuple[BuildAxis, ...]
    span: Span


@dataclass(frozen=True)
class BuildSpec:
    name: str
    doc: str
    span: Span
    entries: tuple[BuildEntry, ...]
    masks: Mapping[str, VariantSpec] = field(default_factory=dict)  # beside those of the operators


@dataclass(frozen=True)
class TargetSpec:
    """What a chip is: one file of specs/targets. family: cpu, amd, dcu or nvidia."""

    name: str
    doc: str
    span: Span
    family: str
    wave: int
    vector_bits: int
    compiler: str  # cxx, hip or nvcc
    flags: tuple[str, ...]
    requires: tuple[str, ...]  # CPU feature flags, as /proc/cpuinfo spells them
    lds_bytes: int = 0  # shared memory a block can have
    registers: int = 0  # 32-bit vector registers a thread can name
    stand_in: tuple[str, ...] = ()  # flags of a known chip, to check sources where no compiler knows this one
    toolkit: str = ""  # where a compiler that knows the target comes from
    numbers: NumberSpec = field(default_factory=NumberSpec)
    chip: ChipSpec | None = None  # what a GPU is; None: nothing beyond the above is known
