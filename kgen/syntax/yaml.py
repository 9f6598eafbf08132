"""YAML to nodes that know where they stand, in the part of YAML that specs are written in.

Mappings with plain keys, lists and scalars; nothing else. Tags, anchors, aliases, merge keys,
duplicate keys and several documents are refused, and so are files that are too large or nest
too deep. Scalars stay text: what a value means is the business of the spec that reads it.
The tree is built from parser events with a stack of its own, so depth costs no recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from kgen.diagnostics import Collector, Source, Span
from kgen.syntax.position import span_at

MAX_CHARACTERS = 128 * 1024
MAX_DEPTH = 24
MAX_NODES = 10_000


@dataclass(frozen=True)
class ScalarNode:
    """A piece of text. `quoted` tells `"1"` from `1`."""

    text: str
    quoted: bool
    span: Span


@dataclass(frozen=True)
class ListNode:
    items: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Entry:
    key: ScalarNode
    value: Node


@dataclass(frozen=True)
class MapNode:
    """A mapping. Keys are unique and in the order of the file."""

    entries: tuple[Entry, ...]
    span: Span


@dataclass(frozen=True)
class BadNode:
    """Stands where a fault was already reported, so that nothing else is said about it."""

    span: Span


Node = ScalarNode | ListNode | MapNode | BadNode


def load(source: Source, collector: Collector | None = None) -> Node:
    """The nodes of a YAML text. Faults go to `collector`; without one they are raised."""
    found = collector if collector is not None else Collector()
    node = _Composer(source, found).compose()
    if collector is None:
        found.check()
    return node


@dataclass
class _Open:
    """A list or mapping whose end has not been seen yet. `key` waits for its value."""

    start: Any
    mapping: bool
    children: list[Any]
    key: ScalarNode | BadNode | None = None
    keys: dict[str, Span] = field(default_factory=dict)


class _Composer:
    def __init__(self, source: Source, found: Collector) -> None:
        self._source, self._found = source, found
        self._nodes = 0

    def compose(self) -> Node:
        text = self._source.text
        if len(text) > MAX_CHARACTERS:
            message = f"the file has {len(text)} characters; at most {MAX_CHARACTERS} are allowed"
            return self._refuse("K104", message, 0, 1)
        try:
            return self._build(yaml.parse(text, Loader=yaml.SafeLoader))
        except yaml.reader.ReaderError as error:
            message = f"the character U+{int(error.character):04X} is not allowed in a spec"
            return self._refuse("K101", message, error.position, error.position + 1)
        except yaml.MarkedYAMLError as error:
            return self._malformed(error)

    def _malformed(self, error: yaml.MarkedYAMLError) -> BadNode:
        """Report what the scanner or parser of YAML stopped at, in the words of this project."""
        problem = str(error.problem or error.context)
        message, hint = next(
            ((text, hint) for part, text, hint in _PROBLEMS if part in problem),
            (f"not YAML: {problem}", None),
        )
        mark = error.problem_mark or error.context_mark
        start, opened = error.context_mark, tuple[str, ...]()
        if "end of stream" in problem and start is not None:
            mark = start
        elif start is not None and mark is not None and start.line != mark.line:
            opened = (f"it belongs to what starts at {span_at(self._source, start.index, start.index)}",)
        place = mark.index if mark is not None else 0
        self._found.add("K101", message, span := span_at(self._source, place, place + 1), hint, opened)
        return BadNode(span)

    def _build(self, events: Iterator[Any]) -> Node:
        stack: list[_Open] = []
        root: Node | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    return self._stop("K102", "a spec is one YAML document; this starts another", event)
            node = self._node(event, stack)
            if self._nodes > MAX_NODES:
                return self._stop("K104", f"the file has more than {MAX_NODES} values", event)
            if len(stack) > MAX_DEPTH:
                return self._stop("K104", f"the file nests deeper than {MAX_DEPTH} levels", event)
            if node is not None and stack:
                self._attach(stack[-1], node)
            elif node is not None:
                root = node
        return root if root is not None else self._refuse("K101", "the file is empty", 0, 1)

    def _node(self, event: Any, stack: list[_Open]) -> Node | None:
        """The node an event completes, if it does."""
        if isinstance(event, yaml.NodeEvent):
            self._nodes += 1
            self._check_plain(event)
        if isinstance(event, yaml.ScalarEvent):
            return ScalarNode(event.value, event.style is not None, self._span(event))
        if isinstance(event, yaml.AliasEvent):
            return BadNode(self._span(event))
        if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            stack.append(_Open(event, isinstance(event, yaml.MappingStartEvent), []))
        if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            return self._close(stack.pop(), event)
        return None

    def _check_plain(self, event: Any) -> None:
        """Refuse what gives a node another meaning than its text: tags, anchors, aliases."""
        if isinstance(event, yaml.AliasEvent):
            self._add("K102", f"aliases are not allowed: '*{event.anchor}'", event, "write the value out")
        elif event.anchor is not None:
            self._add("K102", f"anchors are not allowed: '&{event.anchor}'", event, "write the value out")
        if getattr(event, "tag", None) is not None:
            self._add("K102", f"tags are not allowed: '{event.tag}'", event, "remove the tag")

    def _close(self, opened: _Open, end: Any) -> Node:
        span = self._extent(opened, end)
        if opened.mapping:
            return MapNode(tuple(opened.children), span)
        return ListNode(tuple(opened.children), span)

    def _extent(self, opened: _Open, end: Any) -> Span:
        """A flow collection spans its brackets; a block one is shown by its first line."""
        start = opened.start.start_mark.index
        if opened.start.flow_style or not opened.children:
            return span_at(self._source, start, end.end_mark.index)
        first = opened.children[0]
        return (
            first.key.span
            if isinstance(first, Entry)
            else Span(self._source, *_place(self._source, start), first.span.end_line, first.span.end_col)
        )

    def _attach(self, parent: _Open, node: Node) -> None:
        if not parent.mapping:
            parent.children.append(node)
        elif parent.key is None:
            parent.key = self._key(node, parent)
        else:
            if isinstance(parent.key, ScalarNode):
                parent.children.append(Entry(parent.key, node))
            parent.key = None

    def _key(self, node: Node, parent: _Open) -> ScalarNode | BadNode:
        if not isinstance(node, ScalarNode):
            if not isinstance(node, BadNode):
                self._found.add("K102", "a key is a plain word", node.span)
            return BadNode(node.span)
        if node.text == "<<" and not node.quoted:
            self._found.add("K102", "merge keys are not allowed: '<<'", node.span, "write the keys out")
            return BadNode(node.span)
        first = parent.keys.setdefault(node.text, node.span)
        if first is not node.span:
            note = f"first given at {first}"
            self._found.add("K103", f"duplicate key '{node.text}'", node.span, "keep one of them", (note,))
            return BadNode(node.span)
        return node

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark.index, event.end_mark.index
        text = self._source.text[start:end]
        return span_at(self._source, start, start + max(1, len(text.rstrip())))

    def _add(self, code: str, message: str, event: Any, hint: str | None = None) -> None:
        start = event.start_mark.index
        line_end = self._source.text.find("\n", start)
        end = min(event.end_mark.index, line_end if line_end > start else len(self._source.text))
        self._found.add(code, message, span_at(self._source, start, max(end, start + 1)), hint)

    def _stop(self, code: str, message: str, event: Any) -> BadNode:
        start = event.start_mark.index
        return self._refuse(code, message, start, start + 1)

    def _refuse(self, code: str, message: str, start: int, end: int) -> BadNode:
        span = span_at(self._source, start, end)
        self._found.add(code, message, span)
        return BadNode(span)


def _place(source: Source, offset: int) -> tuple[int, int]:
    span = span_at(source, offset, offset)
    return span.line, span.col


_INDENT = "indent it like its neighbours, or put the whole value in quotes"
_COLON = "put a value with ': ' in it in quotes, or line the key up with its neighbours"
_FLOW = "put a value with any of , [ ] { } in it in quotes"
_PROBLEMS = (
    ("'\\t'", "a tab cannot indent", "use spaces"),
    ("mapping values are not allowed", "a ':' cannot stand here", _COLON),
    ("sequence entries are not allowed", "a '-' cannot stand here", "start the list on a line of its own"),
    ("found unexpected end of stream", "the quote is not closed", None),
    ("found unexpected document separator", "the quote is not closed", None),
    ("expected ',' or ']'", "expected ',' or ']'", _FLOW),
    ("expected ',' or '}'", "expected ',' or '}'", _FLOW),
    ("could not find expected ':'", "expected ':' after this key", None),
    ("expected the node content", "expected a value", None),
    ("expected <block end>", "this does not belong to the value before it", _INDENT),
    ("expected alphabetic or numeric", "anchors and aliases are not allowed", "put the value in quotes"),
    ("undefined tag handle", "tags are not allowed", "put the value in quotes"),
    ("found unknown escape", "unknown escape in double quotes", "use single quotes"),
    ("that cannot start any token", "a value cannot start with this character", "put the value in quotes"),
)
"""(what YAML says, what kgen says, what to do), first match."""
