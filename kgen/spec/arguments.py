"""The `arguments` of an operator, and the facts their axes define."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kgen.diagnostics import Collector, choice_hint
from kgen.semantics import DTYPES
from kgen.spec.evaluate import made_of, origins_of
from kgen.spec.model import ArgumentSpec, AxisSpec, Let, Param
from kgen.spec.reader import Fields, check_name, expression
from kgen.syntax.ast import Int, Name
from kgen.syntax.yaml import Entry, MapNode

CACHE_FACTS = ("num_blocks", "num_kv_heads")
"""Facts that a KV cache defines by its shape."""
_ACCESS = ("read", "write", "update")
_BOX = ("box", "box_dims")
_TENSOR_KEYS = ("axes", "access", "optional", "workspace", "zeroed", "when", "because", "broadcast", *_BOX)


def read_argument(entry: Entry, params: Mapping[str, Param], found: Collector) -> ArgumentSpec:
    """A scalar `{scalar: int}`, a KV cache `{dtype: d, cache: k}` or a tensor with `axes`.

    The kind of one that could not be read is empty."""
    check_name(entry.key, "an argument", found)
    keys = {item.key.text for item in entry.value.entries} if isinstance(entry.value, MapNode) else set()
    if "scalar" in keys:
        fields = Fields(entry.value, "a scalar argument", found, required=("scalar",), at=entry.key.span)
        return ArgumentSpec(entry.key.text, fields.choice("scalar", ("int", "float"), "int"), entry.key.span)
    kind = "cache" if "cache" in keys else "tensor"
    optional = ("access", "optional", *_BOX) if kind == "cache" else _TENSOR_KEYS[1:]
    required = ("dtype", "cache" if kind == "cache" else "axes")
    what = "a cache argument" if kind == "cache" else "a tensor argument"
    fields = Fields(entry.value, what, found, required=required, optional=optional, at=entry.key.span)
    if "zeroed" in fields and "workspace" not in fields:
        found.add("K202", "only a workspace can be 'zeroed'", fields.where("zeroed"), "add workspace: true")
    _check_presence(fields)
    return ArgumentSpec(
        name=entry.key.text,
        kind=kind if fields.ok else "",
        span=entry.key.span,
        dtype=_dtype(fields, params),
        axes=_axes(fields),
        cache=fields.choice("cache", ("k", "v")) if kind == "cache" else "",
        access=fields.choice("access", _ACCESS, "read"),
        optional=fields.boolean("optional"),
        workspace=fields.expr("workspace") if kind == "tensor" else None,
        box=fields.expr("box"),
        box_dims=fields.expr("box_dims"),
        zeroed=fields.boolean("zeroed") if kind == "tensor" else False,
        when=fields.expr("when") if kind == "tensor" else None,
        because=fields.text("because"),
        broadcast=fields.boolean("broadcast"),
    )


def _check_presence(fields: Fields) -> None:
    """Who says when an argument is given says it once, and why; who says how wide a box is says how high."""
    if "box_dims" in fields and "box" not in fields:
        fields.found.add("K202", "'box_dims' needs the key 'box'", fields.keys["box_dims"].span)
    for other in ("optional", "workspace"):
        if "when" in fields and other in fields:
            message = f"'when' says where the argument is given, and so does '{other}'"
            fields.found.add("K203", message, fields.keys[other].span)
    if ("when" in fields) != ("because" in fields):
        missing, given = ("because", "when") if "when" in fields else ("when", "because")
        fields.found.add("K202", f"'{given}' needs the key '{missing}'", fields.keys[given].span)


def check_when(
    arguments: Iterable[ArgumentSpec], lets: tuple[Let, ...], late: Collection[str], found: Collector
) -> None:
    """Report each `when` that depends on a name of `late`: binding, which holds a call to it, does not know
    those yet."""
    origins = origins_of(lets)
    for argument in arguments:
        if argument.when is None:
            continue
        for name in sorted(made_of(argument.when, origins) & set(late)):
            message = f"'{name}' is not known yet where a call is held to 'when' of {argument.name}"
            hint = "speak of parameters that the arguments of a call fix"
            found.add("K205", message, argument.when.span, hint)


def _dtype(fields: Fields, params: Mapping[str, Param]) -> str:
    text = fields.text("dtype")
    holders = [name for name, param in params.items() if param.type == "dtype"]
    if text and params and text not in DTYPES and text not in holders:
        what = f"the parameter '{text}' holds no dtype" if text in params else f"unknown dtype '{text[:40]}'"
        fields.found.add("K204", what, fields.where("dtype"), choice_hint(text, [*holders, *DTYPES]))
    return text


def _axes(fields: Fields) -> tuple[AxisSpec, ...]:
    axes = []
    entries = fields.entries("axes")
    node = fields.node("axes")
    if isinstance(node, MapNode) and not entries:
        fields.found.add("K214", "a tensor has at least one axis", node.span)
    for entry in entries:
        check_name(entry.key, "an axis", fields.found)
        size = expression(entry.value, fields.found)
        axes.append(AxisSpec(entry.key.text, size if size is not None else Int(1, span=entry.value.span)))
    return tuple(axes)


def axis_facts(arguments: Iterable[ArgumentSpec], known: Iterable[str]) -> dict[str, Name | None]:
    """The facts that shapes define, in order: a bare name as the size of an axis that is not
    already `known`, and what a cache brings. The value is the first place that names it."""
    taken = set(known)
    facts: dict[str, Name | None] = {}
    for argument in arguments:
        if argument.kind == "cache":
            facts.update({name: None for name in CACHE_FACTS if name not in taken and name not in facts})
        for axis in argument.axes:
            if isinstance(axis.size, Name) and axis.size.name not in taken:
                facts.setdefault(axis.size.name, axis.size)
    return facts
