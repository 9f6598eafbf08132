"""Reads the fields of a YAML mapping, reporting every fault and going on.

A getter returns None (or its default) where the field is absent or wrong; whatever was wrong
has then been reported, so callers need no error handling of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgen.diagnostics import Collector, KgenError, Span, choice_hint
from kgen.syntax.ast import Expr
from kgen.syntax.parser import KEYWORDS, parse_expr
from kgen.syntax.yaml import BadNode, Entry, ListNode, MapNode, Node, ScalarNode

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLAT = re.compile(r"[\w.:-]+\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?\Z")
_TAKEN = KEYWORDS | {"target"}


def describe(node: Node) -> str:
    """What a node is, for a message that says what was found instead."""
    if isinstance(node, MapNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, BadNode):
        return "a faulty value"
    if not node.text.strip():
        return "an empty text" if node.quoted else "nothing"
    return f"'{node.text[:40]}'"


def as_int(node: Node) -> int | None:
    """The whole number a scalar spells, if it does and fits 64 bits."""
    if isinstance(node, ScalarNode) and not node.quoted and len(node.text) < 21 and _INT.match(node.text):
        value = int(node.text)
        return value if -(2**63) <= value < 2**63 else None
    return None


def as_float(node: Node) -> float | None:
    """The number with a point or an exponent that a scalar spells, if it does."""
    if isinstance(node, ScalarNode) and not node.quoted and _FLOAT.match(node.text):
        return float(node.text)
    return None


def as_bool(node: Node) -> bool | None:
    if isinstance(node, ScalarNode) and not node.quoted and node.text in ("true", "false"):
        return node.text == "true"
    return None


def expression(node: Node, found: Collector) -> Expr | None:
    """The expression a scalar holds."""
    if isinstance(node, BadNode):
        return None
    if not isinstance(node, ScalarNode):
        found.add("K203", f"expected an expression, found {describe(node)}", node.span)
        return None
    try:
        return parse_expr(node.text, node.span)
    except KgenError as error:
        found.extend(error.diagnostics)
        return None


def check_name(node: ScalarNode, what: str, found: Collector) -> None:
    """A name is lower case and no word of the language."""
    if not NAME.match(node.text):
        hint = "use lower-case letters, digits and '_', starting with a letter"
        found.add("K203", f"'{node.text[:40]}' cannot name {what}", node.span, hint)
    elif node.text in _TAKEN:
        found.add("K203", f"'{node.text}' is a word of the language and cannot name {what}", node.span)


class Fields:
    """The fields of one mapping. `what` names it in messages: `a parameter`."""

    def __init__(
        self,
        node: Node,
        what: str,
        found: Collector,
        *,
        required: Sequence[str] = (),
        optional: Sequence[str] = (),
        at: Span | None = None,
    ) -> None:
        self.found, self.what = found, what
        self.span = at or node.span
        self._values: dict[str, Node] = {}
        self.keys: dict[str, ScalarNode] = {}
        self.unknown: list[str] = []
        self.ok = isinstance(node, MapNode)
        if isinstance(node, MapNode):
            self._read(node, [*required, *optional])
            for key in required:
                if key not in self._values:
                    found.add("K202", f"{what} needs the key '{key}'", self.span)
        elif not isinstance(node, BadNode):
            keys = ", ".join([*required, *optional])
            found.add("K203", f"{what} is a mapping; found {describe(node)}", node.span, f"keys: {keys}")

    def _read(self, node: MapNode, known: Sequence[str]) -> None:
        for entry in node.entries:
            key = entry.key.text
            if key in known:
                self._values[key], self.keys[key] = entry.value, entry.key
            else:
                self.unknown.append(key)
                hint = choice_hint(key, list(known))
                self.found.add("K201", f"{self.what} has no key '{key[:40]}'", entry.key.span, hint)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def node(self, key: str) -> Node | None:
        """The value as it is; None where absent or already reported."""
        node = self._values.get(key)
        return None if isinstance(node, BadNode) else node

    def where(self, key: str) -> Span:
        """The span of the value, or of the whole mapping where the key is absent."""
        node = self._values.get(key)
        return node.span if node is not None else self.span

    def _wrong(self, key: str, wanted: str, node: Node, hint: str | None = None) -> None:
        self.found.add("K203", f"'{key}' is {wanted}; found {describe(node)}", node.span, hint)

    def text(self, key: str, default: str = "") -> str:
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and node.text.strip():
            return node.text
        self._wrong(key, "text", node)
        return default

    def name(self, key: str, what: str) -> str:
        node = self.node(key)
        text = self.text(key)
        if isinstance(node, ScalarNode) and text:
            check_name(node, what, self.found)
        return text

    def choice(self, key: str, choices: Sequence[str], default: str = "") -> str:
        node = self.node(key)
        if node is not None and not isinstance(node, ScalarNode):
            self._wrong(key, f"one of {', '.join(choices)}", node)
            return default
        text = self.text(key)
        if text and text not in choices:
            hint = choice_hint(text, list(choices))
            self.found.add("K204", f"'{text[:40]}' is no value of '{key}'", self.where(key), hint)
            return default
        return text or default

    def integer(self, key: str, default: int | None = None, *, low: int | None = None) -> int | None:
        node = self.node(key)
        if node is None:
            return default
        value = as_int(node)
        if value is None:
            self._wrong(key, "a whole number", node)
            return default
        if low is not None and value < low:
            self.found.add("K218", f"'{key}' must be at least {low}; found {value}", node.span)
        return value

    def boolean(self, key: str, default: bool = False) -> bool:
        node = self.node(key)
        if node is None:
            return default
        value = as_bool(node)
        if value is None:
            self._wrong(key, "true or false", node)
        return default if value is None else value

    def expr(self, key: str) -> Expr | None:
        node = self.node(key)
        return None if node is None else expression(node, self.found)

    def items(self, key: str, *, filled: bool = False) -> tuple[Node, ...]:
        """The nodes of a list; with `filled`, an empty one is a fault."""
        node = self.node(key)
        if node is None:
            return ()
        if not isinstance(node, ListNode):
            plain_text = isinstance(node, ScalarNode) and node.text and _FLAT.match(node.text)
            self._wrong(key, "a list", node, f"write [{describe(node)[1:-1]}]" if plain_text else None)
            return ()
        if filled and not node.items:
            self.found.add("K214", f"'{key}' is an empty list", node.span, "give at least one value")
        return node.items

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        result = []
        for node in self.items(key):
            if isinstance(node, ScalarNode):
                result.append(node.text)
            elif not isinstance(node, BadNode):
                self.found.add("K203", f"'{key}' is a list of words; found {describe(node)}", node.span)
        return tuple(result)

    def entries(self, key: str) -> tuple[Entry, ...]:
        """The entries of a mapping."""
        node = self.node(key)
        if node is None:
            return ()
        if not isinstance(node, MapNode):
            self._wrong(key, "a mapping", node)
            return ()
        return node.entries
