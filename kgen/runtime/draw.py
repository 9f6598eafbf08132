"""The radix tree as text."""

from __future__ import annotations

from kgen.runtime.keys import tokens_of
from kgen.runtime.node import Node, hits_through
from kgen.runtime.tree import Tree

SHOWN = 8


def draw(tree: Tree, max_nodes: int = 200) -> str:
    """A line a node, children under their parent; only a branch indents, so a long chain stays narrow."""
    lines: list[str] = []
    for namespace, root in sorted(tree.roots.items(), key=lambda item: str(item[0])):
        lines.append(f"[{namespace}]")
        pending = [(child, 0, 1) for child in _newest_first(root)]
        while pending:
            if len(lines) > max_nodes:
                return "\n".join([*lines, "..."])
            node, start, depth = pending.pop()
            lines.append("  " * depth + _line(node, start))
            below = _newest_first(node)
            inner = depth + (len(below) > 1)
            pending.extend((child, start + len(tokens_of(node.key)), inner) for child in below)
    return "\n".join(lines) or "(empty)"


def _newest_first(node: Node) -> list[Node]:
    return sorted(node.children.values(), key=lambda child: -child.number)


def _line(node: Node, start: int) -> str:
    tokens = tokens_of(node.key)
    shown = " ".join(map(str, tokens[:SHOWN])) + (" ..." if len(tokens) > SHOWN else "")
    places = f"{start}..{start + len(tokens) - 1}"
    text = f"#{node.number} tokens {places} ({shown}) lock {node.lock_ref} hits {hits_through(node)}"
    return text + (f" priority {node.priority}" if node.priority else "")
