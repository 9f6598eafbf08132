"""specs/layouts.yaml: the orders of KV caches."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.layout import AXES, Layout, TensorOrder
from kgen.spec.reader import Fields, check_name, describe
from kgen.syntax.yaml import BadNode, ListNode, Node, ScalarNode

_SPLIT = re.compile(r"dim/(x|[1-9][0-9]{0,3})\Z")


def read_layouts(node: Node, found: Collector) -> Mapping[str, Layout]:
    """Every layout of the file; a faulty one is reported and left out."""
    top = Fields(node, "layouts.yaml", found, required=("layouts",))
    layouts = {}
    for entry in top.entries("layouts"):
        check_name(entry.key, "a layout", found)
        layouts[entry.key.text] = _layout(entry.key.text, entry.value, entry.key.span, found)
    return layouts


def _layout(name: str, node: Node, span: Span, found: Collector) -> Layout:
    fields = Fields(
        node, "a layout", found, required=("k", "v"), optional=("doc", "because", "also"), at=span
    )
    k, v = (_order(fields, tensor) for tensor in ("k", "v"))
    unknown = [tensor for tensor in ("k", "v") if _is_unknown(fields.node(tensor))]
    if unknown and "because" not in fields:
        message = f"the order of '{unknown[0]}' is unknown; say why under 'because'"
        found.add("K202", message, fields.where(unknown[0]))
    return Layout(name, k, v, fields.text("doc"), fields.text("because"), fields.words("also"))


def _is_unknown(node: Node | None) -> bool:
    return isinstance(node, ScalarNode) and node.text == "unknown"


def _order(fields: Fields, tensor: str) -> TensorOrder | None:
    node = fields.node(tensor)
    if node is None or _is_unknown(node):
        return None
    if not isinstance(node, ListNode):
        message = (
            f"'{tensor}' is a list of axes, outermost first, or the word unknown; found {describe(node)}"
        )
        fields.found.add("K203", message, node.span)
        return None
    axes: list[str] = []
    split: int | None = None
    width = ""
    for item in node.items:
        text = item.text if isinstance(item, ScalarNode) else ""
        match = _SPLIT.match(text)
        if match:
            width = match[1]
            split = 0 if width == "x" else int(width)
        axis = "dim" if match else "inner" if width and text == width else text
        if axis not in (*AXES, "inner") or (axis == "inner" and text != width):
            _bad_axis(item, text, fields.found)
            return None
        if axis in axes:
            fields.found.add("K215", f"axis '{text}' is given twice", item.span)
            return None
        axes.append(axis)
    wanted = [*AXES, *(["inner"] if split is not None else [])]
    missing = [axis for axis in wanted if axis not in axes]
    if missing:
        lost = width if missing[0] == "inner" else missing[0]
        fields.found.add(
            "K202", f"the order of '{tensor}' lacks the axis '{lost}'", node.span, f"axes: {', '.join(AXES)}"
        )
        return None
    return TensorOrder(tuple(axes), split)


def _bad_axis(item: Node, text: str, found: Collector) -> None:
    if not isinstance(item, BadNode):
        inner = text == "x" or text.isdigit()
        hint = "it follows an axis dim/x or dim/8" if inner else choice_hint(text, [*AXES, "dim/x"])
        found.add("K204", f"{describe(item)} is no axis of a cache", item.span, hint)
