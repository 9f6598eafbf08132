"""specs/builds/*.yaml: which variants to build, checked against the operators they name."""

from __future__ import annotations

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.manifest import Scalar
from kgen.semantics import DTYPES
from kgen.spec.catalog import Catalog
from kgen.spec.model import BuildAxis, BuildEntry, BuildSpec, OpSpec, Param
from kgen.spec.params import check_range, read_value
from kgen.spec.reader import Fields, describe
from kgen.spec.variants import read_variant
from kgen.syntax.yaml import BadNode, Entry, ListNode, MapNode, Node, ScalarNode

NATIVE = "native"
SIMULATED = "sim:"


def read_build(node: Node, catalog: Catalog, found: Collector) -> BuildSpec:
    """The build of one file. Every fault goes to `found`."""
    top = Fields(node, "a build", found, required=("build", "variants"), optional=("doc", "masks"))
    masks = {entry.key.text: read_variant(entry, found, of_build=True) for entry in top.entries("masks")}
    used = {op.text for item in top.items("variants") if (op := _op_node(item)) is not None}
    catalog = catalog.with_masks(masks, found, used)
    entries = []
    for item in top.items("variants", filled=True):
        entry = _entry(item, catalog, found)
        if entry is not None:
            entries.append(entry)
    return BuildSpec(top.name("build", "a build"), top.text("doc"), top.where("build"), tuple(entries), masks)


def _op_node(item: Node) -> ScalarNode | None:
    """Where an entry names its operator."""
    values = {entry.key.text: entry.value for entry in item.entries} if isinstance(item, MapNode) else {}
    node = values.get("op")
    return node if isinstance(node, ScalarNode) else None


def _entry(node: Node, catalog: Catalog, found: Collector) -> BuildEntry | None:
    fields = Fields(node, "an entry of 'variants'", found, required=("op", "axes"))
    name = fields.text("op")
    if name and name not in catalog.ops:
        found.add(
            "K205",
            f"unknown operator '{name[:40]}'",
            fields.where("op"),
            choice_hint(name, list(catalog.ops)),
        )
        return None
    if not name or "axes" not in fields:
        return None
    op = catalog.ops[name]
    params = {param.name: param for param in op.params}
    axes = []
    for entry in fields.entries("axes"):
        param = params.get(entry.key.text)
        if param is None:
            hint = choice_hint(entry.key.text, list(params))
            found.add("K205", f"{name} has no parameter '{entry.key.text[:40]}'", entry.key.span, hint)
        else:
            axes.append(_axis(entry, param, op, catalog, found))
    given = {entry.key.text for entry in fields.entries("axes")}
    if fields.node("axes") is not None:
        for param in op.params:
            if param.name not in given and param.default is None:
                message = f"{name} needs the axis '{param.name}'"
                found.add("K202", message, fields.where("op"), _example(param))
    return BuildEntry(name, tuple(axes), fields.where("op"))


def _example(param: Param) -> str:
    some = ", ".join(str(value) for value in param.values[:3]) or {
        "target": NATIVE,
        "layout": "bshd",
        "int": str(param.minimum or 0),
    }.get(param.type, "...")
    return f"add {param.name}: [{some}]"


def _axis(entry: Entry, param: Param, op: OpSpec, catalog: Catalog, found: Collector) -> BuildAxis:
    values: list[Scalar] = []
    spans: list[Span] = []
    node = entry.value
    if not isinstance(node, ListNode):
        if not isinstance(node, BadNode):
            hint = f"write [{node.text}]" if isinstance(node, ScalarNode) and node.text else None
            found.add("K203", f"an axis is a list of values; found {describe(node)}", node.span, hint)
        return BuildAxis(param.name, (), entry.key.span, ())
    if not node.items:
        found.add("K214", f"the axis '{param.name}' is empty", node.span, _example(param))
    for item in node.items:
        named = param.named.get(item.text) if isinstance(item, ScalarNode) else None
        value = named if named is not None else read_value(item, param.type, found)
        if value is None or not _is_legal(value, item, param, op, catalog, found):
            continue
        if value in values:
            found.add("K215", f"{describe(item)} is listed twice", item.span)
            continue
        values.append(value)
        spans.append(item.span)
    return BuildAxis(param.name, tuple(values), entry.key.span, tuple(spans))


def _is_legal(
    value: Scalar, node: Node, param: Param, op: OpSpec, catalog: Catalog, found: Collector
) -> bool:
    """Whether a parameter may have this value; otherwise it is reported."""
    every = _words(param.type, op, catalog)
    allowed = [str(each) for each in param.values] or every
    if allowed and str(value) not in allowed:
        unknown = bool(every) and value not in every
        message = (
            f"unknown {param.type} {describe(node)}"
            if unknown
            else (f"'{param.name}' cannot be {describe(node)}")
        )
        found.add("K204", message, node.span, choice_hint(str(value), allowed))
        return False
    return check_range(value, (param.minimum, param.maximum), node.span, found)


def _words(kind: str, op: OpSpec, catalog: Catalog) -> list[str]:
    """The words that name something of a type."""
    if kind == "target":
        return [NATIVE, *catalog.targets, *_simulated(catalog)]
    return {"dtype": list(DTYPES), "layout": list(catalog.layouts), "variant": list(op.variants)}.get(
        kind, []
    )


def _simulated(catalog: Catalog) -> list[str]:
    return [f"{SIMULATED}{name}" for name, target in catalog.targets.items() if target.family != "cpu"]
