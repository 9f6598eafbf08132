"""The syntax tree of expressions: frozen nodes that know where they stand in their file.

Equality and hashing ignore spans. Every node knows its `depth` and `size` (nodes), so that
no walk over a tree that was accepted can recurse too deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from kgen.diagnostics import Source, Span
from kgen.manifest import Code, Scalar

NOWHERE = Span(Source("<computed>", ""), 1, 1, 1, 1)
"""The span of a node that no text stands for."""


@dataclass(frozen=True)
class Expr:
    """The base of all nodes."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)
    depth: int = field(init=False, compare=False, repr=False)
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        depth, size = 0, 1
        for child in self.children():
            depth, size = max(depth, child.depth), size + child.size
        object.__setattr__(self, "depth", depth + 1)
        object.__setattr__(self, "size", size)

    def children(self) -> tuple[Expr, ...]:
        """The operands, left to right."""
        return ()


@dataclass(frozen=True)
class Int(Expr):
    value: int


@dataclass(frozen=True)
class Float(Expr):
    value: float


@dataclass(frozen=True)
class Bool(Expr):
    value: bool


@dataclass(frozen=True)
class Str(Expr):
    """A quoted word: the value of an enum, dtype, layout, target or variant."""

    value: str


@dataclass(frozen=True)
class Name(Expr):
    name: str


@dataclass(frozen=True)
class Attr(Expr):
    """A field of a target or a layout: `target.wave`."""

    base: Name
    name: str
    name_span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def dotted(self) -> str:
        return f"{self.base.name}.{self.name}"


@dataclass(frozen=True)
class Unary(Expr):
    op: str  # neg, not
    operand: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Binary(Expr):
    op: str  # + - * / // % and or implies
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Compare(Expr):
    """A comparison or a chain of them: `0 <= q < n`. One operator fewer than operands."""

    ops: tuple[str, ...]  # == != < <= > >=
    operands: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.operands


@dataclass(frozen=True)
class In(Expr):
    item: Expr
    choices: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return (self.item, *self.choices)


@dataclass(frozen=True)
class If(Expr):
    """`then if condition else otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.then, self.otherwise)


@dataclass(frozen=True)
class Call(Expr):
    function: str
    args: tuple[Expr, ...]
    name_span: Span = field(default=NOWHERE, compare=False, repr=False)

    def children(self) -> tuple[Expr, ...]:
        return self.args


@dataclass(frozen=True)
class Index(Expr):
    base: Expr
    index: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.index)


LITERALS = (Int, Float, Bool, Str)


def literal(value: Scalar, span: Span = NOWHERE) -> Expr:
    """The node that stands for a value."""
    if isinstance(value, bool):
        return Bool(value, span=span)
    if isinstance(value, int):
        return Int(value, span=span)
    return Float(value, span=span) if isinstance(value, float) else Str(value, span=span)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node, parents first, left to right."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children()))


def names_of(expr: Expr) -> frozenset[str]:
    """The names an expression uses; of `target.wave` it is `target`. Kept with the node."""
    kept: frozenset[str] | None = expr.__dict__.get("_names")
    if kept is None:
        nodes = [node.base if isinstance(node, Attr) else node for node in walk(expr)]
        kept = frozenset(node.name for node in nodes if isinstance(node, Name))
        expr.__dict__["_names"] = kept
    return kept


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to each of its operands."""
    if not expr.children():
        return expr
    changed: dict[str, Expr | tuple[Expr, ...]] = {}
    for item in fields(expr):
        value = getattr(expr, item.name)
        if isinstance(value, Expr):
            changed[item.name] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Expr):
            changed[item.name] = tuple(change(part) for part in value)
    return replace(expr, **changed)  # type: ignore[arg-type]


def to_code(expr: Expr, spans: dict[int, Span] | None = None) -> Code:
    """The JSON form that `kgen.semantics.evaluate` runs.

    `spans`, when given, receives the span of each part by the `id` of its code.
    """
    code = _code(expr, spans)
    if spans is not None:
        spans[id(code)] = expr.span
    return code


def _code(expr: Expr, spans: dict[int, Span] | None) -> Code:
    match expr:
        case Int() | Float() | Bool() | Str():
            return [type(expr).__name__.lower(), expr.value]
        case Name():
            return ["name", expr.name]
        case Attr():
            return ["name", expr.dotted]
        case Compare(ops=ops, operands=operands) if len(ops) > 1:
            return ["compare", list(ops), [to_code(part, spans) for part in operands]]
        case In():
            return ["in", to_code(expr.item, spans), [to_code(part, spans) for part in expr.choices]]
    parts = [to_code(part, spans) for part in expr.children()]
    match expr:
        case Unary() | Binary():
            return [expr.op, *parts]
        case Compare():
            return [expr.ops[0], *parts]
        case Call():
            return ["call", expr.function, *parts]
    return [type(expr).__name__.lower(), *parts]  # if, index


def substitute(expr: Expr, values: Mapping[str, Scalar | Expr]) -> Expr:
    """`expr` with names, and fields as dotted names, replaced by values or expressions."""
    if isinstance(expr, Name | Attr):
        name = expr.name if isinstance(expr, Name) else expr.dotted
        if name not in values:
            return expr
        value = values[name]
        return value if isinstance(value, Expr) else literal(value, expr.span)
    return rebuild(expr, lambda part: substitute(part, values))
