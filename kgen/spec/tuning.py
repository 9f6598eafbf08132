"""Tuning tables as files: `kgen tune` writes them, dispatch is handed what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kgen.diagnostics import Collector, choice_hint
from kgen.manifest import Scalar
from kgen.spec.arguments import axis_facts
from kgen.spec.model import OpSpec
from kgen.spec.params import read_value
from kgen.spec.reader import Fields, as_bool, as_float, as_int, describe
from kgen.syntax.yaml import BadNode, Entry, ListNode, MapNode, Node, ScalarNode
from kgen.tuning import Range, TunedClass, TuningTable

RULE = "rule"
"""What stands under `use` where the operator's own rules were not beaten."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEAD = "# Written by `kgen tune`; docs/benchmarks/README.md says how to read it.\n"


def read_tuning(node: Node, ops: Mapping[str, OpSpec], name: str, found: Collector) -> TuningTable:
    """The table of one file. Every fault goes to `found`."""
    needed = ("tuned", "target", "compiler", "classes")
    top = Fields(node, "a tuning table", found, required=needed, optional=("machine",))
    op = ops.get(top.text("tuned"))
    if top.text("tuned") and op is None:
        hint = choice_hint(top.text("tuned"), list(ops))
        found.add("K205", f"unknown operator '{top.text('tuned')[:40]}'", top.where("tuned"), hint)
    classes: dict[tuple[object, ...], TunedClass] = {}
    for item in top.items("classes"):
        one = _class(item, op, found) if op is not None else None
        if one is not None and one.names and classes.setdefault(one.key, one) is not one:
            note = f"first at {classes[one.key].where}"
            found.add("K215", "this class of calls is listed twice", item.span, None, (note,))
    return TuningTable(
        op=top.text("tuned"),
        target=top.text("target"),
        compiler=top.text("compiler"),
        classes=tuple(classes.values()),
        machine=top.text("machine"),
        name=name,
    )


def _class(node: Node, op: OpSpec, found: Collector) -> TunedClass | None:
    fields = Fields(node, "an entry of 'classes'", found, required=("call", "use"), optional=("times",))
    if not fields.ok:
        return None
    exact: dict[str, Scalar] = {}
    ranges: dict[str, Range] = {}
    for entry in fields.entries("call"):
        _check_known(entry, op, found)
        _condition(entry, exact, ranges, found)
    times = {e.key.text: e.value.text for e in fields.entries("times") if isinstance(e.value, ScalarNode)}
    return TunedClass(exact, ranges, _use(fields, op, found), times, str(fields.span))


def _check_known(entry: Entry, op: OpSpec, found: Collector) -> None:
    name, known = entry.key.text, _known(op)
    if name in _free(op):
        message = f"'{name}' is a parameter that calls leave open; it belongs under 'use'"
        found.add("K204", message, entry.key.span)
    elif name not in known:
        found.add("K205", f"no call of {op.name} has '{name[:40]}'", entry.key.span, choice_hint(name, known))


def _free(op: OpSpec) -> Mapping[str, str]:
    """The parameters that calls leave open, and their types."""
    types = {param.name: param.type for param in op.params}
    return {rule.param: types[rule.param] for rule in op.select}


def _known(op: OpSpec) -> list[str]:
    """What is known of a call before its free parameters are chosen."""
    free = _free(op)
    params = [param.name for param in op.params if param.name not in free]
    scalars = [argument.name for argument in op.arguments if argument.kind == "int"]
    facts = {fact.name for fact in op.facts}
    shapes = [name for name in axis_facts(op.arguments, [*params, *free]) if name not in facts]
    return [*dict.fromkeys([*params, *scalars, *shapes])]


def _condition(entry: Entry, exact: dict[str, Scalar], ranges: dict[str, Range], found: Collector) -> None:
    name, node = entry.key.text, entry.value
    if isinstance(node, ListNode):
        ends = [as_int(item) for item in node.items]
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
            ranges[name] = (ends[0], ends[1])
        else:
            hint = f"write {name}: [1, 8]"
            found.add(
                "K203", f"the range of '{name}' is two whole numbers, the smaller first", node.span, hint
            )
        return
    value = _scalar(node)
    if value is not None:
        exact[name] = value
    elif not isinstance(node, BadNode):
        found.add("K203", f"'{name}' is a value or a range; found {describe(node)}", node.span)


def _use(fields: Fields, op: OpSpec, found: Collector) -> Mapping[str, Scalar]:
    node, free = fields.node("use"), _free(op)
    if isinstance(node, ScalarNode):
        if node.text != RULE:
            hint = f"write {RULE}, or values of {', '.join(free)}"
            message = f"'use' is a mapping or the word {RULE}; found {describe(node)}"
            found.add("K203", message, node.span, hint)
        return {}
    use: dict[str, Scalar] = {}
    for entry in fields.entries("use"):
        name = entry.key.text
        if name not in free:
            message = f"'{name[:40]}' is no parameter that calls leave open"
            found.add("K205", message, entry.key.span, choice_hint(name, list(free)))
            continue
        value = read_value(entry.value, free[name], found)
        if value is not None:
            use[name] = value
    if isinstance(node, MapNode) and not node.entries:
        found.add("K214", "'use' names no value", node.span, f"write {RULE} where the rules were not beaten")
    return use


def _scalar(node: Node) -> Scalar | None:
    """The number, truth or word that a node spells."""
    if not isinstance(node, ScalarNode) or not node.text.strip():
        return None
    for read in (as_int, as_float, as_bool):
        value = read(node)
        if value is not None:
            return value
    return node.text


def tuning_text(table: TuningTable) -> str:
    """The file of a table: the same table gives the same bytes, a class lies on lines of its own, and classes
    are sorted, so that tables of two branches merge."""
    lines = [
        f"tuned: {table.op}",
        f"target: {table.target}",
        f"compiler: {_quoted(table.compiler)}",
        *([f"machine: {_quoted(table.machine)}"] if table.machine else []),
        "classes:" if table.classes else "classes: []",
    ]
    for one in sorted(table.classes, key=lambda each: each.key):
        exact = {name: _word(value) for name, value in one.exact.items()}
        ranges = {name: f"[{low}, {high}]" for name, (low, high) in one.ranges.items()}
        lines.append(f"  - call: {_mapping({**exact, **ranges})}")
        lines.append(f"    use: {_mapping({n: _word(v) for n, v in one.use.items()}) if one.use else RULE}")
        if one.timings:
            lines.append("    times:")
            lines += [f"      {_word(name)}: {_quoted(text)}" for name, text in one.timings.items()]
    return _HEAD + "\n".join(lines) + "\n"


def _mapping(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {text}" for name, text in values.items()) + "}"


def _word(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not (_PLAIN.match(value) and value not in ("true", "false")):
        return _quoted(value)
    return str(value)


def _quoted(text: str) -> str:
    return "'" + " ".join(text.split()).replace("'", "''") + "'"
