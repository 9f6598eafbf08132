"""specs/targets/*.yaml: what a chip is."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.diagnostics import Collector, choice_hint
from kgen.spec.chip import ChipSpec
from kgen.spec.model import TargetSpec
from kgen.spec.read_chip import read_chip, read_numbers
from kgen.spec.reader import Fields, describe
from kgen.spec.types import COMPILERS, FAMILIES
from kgen.syntax.yaml import BadNode, Entry, MapNode, Node, ScalarNode

_REQUIRED = ("target", "doc", "family", "wave", "vector_bits", "requires", "flags", "compiler")
_OPTIONAL = ("like", "lds_bytes", "registers", "stand_in", "toolkit", "numbers")
CHIP_SECTIONS = ("chip", "occupancy", "memory", "matrix")


def read_target(node: Node, found: Collector) -> TargetSpec:
    """The target of one file, `like` already resolved."""
    fields = Fields(node, "a target", found, required=_REQUIRED, optional=(*_OPTIONAL, *CHIP_SECTIONS))
    vector_bits = fields.integer("vector_bits", 128, low=32)
    wave = fields.integer("wave", 1, low=1) or 1
    return TargetSpec(
        name=fields.name("target", "a target"),
        doc=fields.text("doc"),
        span=fields.where("target"),
        family=fields.choice("family", FAMILIES, "cpu"),
        wave=wave,
        vector_bits=vector_bits or 128,
        compiler=fields.choice("compiler", COMPILERS, "cxx"),
        flags=fields.words("flags"),
        requires=fields.words("requires"),
        lds_bytes=fields.integer("lds_bytes", 0, low=0) or 0,
        registers=fields.integer("registers", 0, low=0) or 0,
        stand_in=fields.words("stand_in"),
        toolkit=fields.text("toolkit"),
        numbers=read_numbers(fields),
        chip=_chip(fields, wave),
    )


def _chip(fields: Fields, wave: int) -> ChipSpec | None:
    if "chip" in fields:
        return read_chip(fields, wave)
    for section in CHIP_SECTIONS:
        if section in fields:
            message = f"'{section}' says more of a chip; say first what it is under 'chip'"
            fields.found.add("K202", message, fields.keys[section].span)
    return None


def resolve_like(nodes: Mapping[str, Node], found: Collector, only: str = "") -> dict[str, Node]:
    """The targets of several files, each completed by the one it is `like`.

    What a file says replaces what it inherits, key by key, at every level of mappings. Spans go on
    pointing into the file that said it. `nodes` and the result are by target name; with `only`,
    the result has that target alone.
    """
    return {name: _complete(name, nodes, found, (name,)) for name in ([only] if only else nodes)}


def parent_of(node: Node) -> ScalarNode | None:
    """The name a target says it is like."""
    value = _entries(node).get("like")
    return value.value if value is not None and isinstance(value.value, ScalarNode) else None


def name_of(node: Node) -> str:
    """The name of a target, empty where it has none that could be read."""
    value = _entries(node).get("target")
    return value.value.text if value is not None and isinstance(value.value, ScalarNode) else ""


def _complete(name: str, nodes: Mapping[str, Node], found: Collector, chain: tuple[str, ...]) -> Node:
    node = nodes[name]
    parent = parent_of(node)
    if parent is None or not isinstance(node, MapNode):
        return node
    if parent.text in chain:
        trail = " -> ".join((*chain, parent.text))
        found.add("K212", f"the target '{name}' is like itself: {trail}", parent.span)
        return BadNode(node.span)
    if parent.text not in nodes:
        hint = choice_hint(parent.text, [other for other in nodes if other != name])
        found.add("K205", f"unknown target {describe(parent)}", parent.span, hint)
        return BadNode(node.span)
    base = _complete(parent.text, nodes, found, (*chain, parent.text))
    if not isinstance(base, MapNode):
        return BadNode(node.span)
    return _merge(base, node)


def _merge(base: MapNode, own: MapNode) -> MapNode:
    """`own` over `base`; where both have a mapping, the two are merged alike."""
    merged = {key: entry for key, entry in _entries(base).items() if key != "like"}
    for key, entry in _entries(own).items():
        before = merged.get(key)
        if before and isinstance(before.value, MapNode) and isinstance(entry.value, MapNode):
            entry = Entry(entry.key, _merge(before.value, entry.value))
        merged[key] = entry
    return MapNode(tuple(merged.values()), own.span)


def _entries(node: Node) -> dict[str, Entry]:
    return {entry.key.text: entry for entry in node.entries} if isinstance(node, MapNode) else {}
