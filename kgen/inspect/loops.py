"""The loops of a function, found in its control flow.

A back edge is a jump to an instruction that dominates it; the loop of a header is all that can
reach one of its back edges without passing the header. Code placed out of line is found too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from kgen.inspect.code import Function, Instruction

_Way = tuple[int, int, tuple[int, ...]]  # work on it, minus its length, its blocks


@dataclass(frozen=True)
class Loop:
    """`own`: the instructions of the loop that are in no loop inside it, by address."""

    header: int
    own: tuple[Instruction, ...]
    inner: int  # loops inside it


@dataclass(frozen=True)
class _Graph:
    """Basic blocks as index ranges of the instructions, with their edges."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]

    @property
    def before(self) -> list[list[int]]:
        edges: list[list[int]] = [[] for _ in self.starts]
        for source, targets in enumerate(self.after):
            for target in targets:
                edges[target].append(source)
        return edges


def find_loops(function: Function) -> tuple[Loop, ...]:
    """Every loop, in the order of their headers."""
    if not function.instructions:
        return ()
    graph = _graph(function.instructions)
    bodies = _bodies(graph, _dominators(graph))
    loops = []
    for header, body in sorted(bodies.items()):
        inside = [other for head, other in bodies.items() if head != header and other < body]
        own = sorted(body.difference(*inside))
        instructions = [i for b in own for i in function.instructions[graph.starts[b] : graph.ends[b]]]
        address = function.instructions[graph.starts[header]].address
        loops.append(Loop(address, tuple(instructions), len(inside)))
    return tuple(loops)


def way_round(function: Function, loop: Loop, is_work: Callable[[str], bool]) -> tuple[Instruction, ...]:
    """One way round a loop, from its header to a jump back there: of those that pass the most instructions
    whose text is work, the shortest. Empty where each passes a loop inside it."""
    own = {instruction.address for instruction in loop.own}
    graph = _graph(function.instructions)
    blocks = [tuple(function.instructions[a:b]) for a, b in zip(graph.starts, graph.ends, strict=True)]
    worth = [sum(is_work(one.text) for one in block) for block in blocks]
    first = next(at for at, block in enumerate(blocks) if block[0].address == loop.header)
    best: dict[int, _Way] = {}
    for block in _postorder(graph, first):
        ways: list[_Way] = [(0, 0, ())] if first in graph.after[block] else []
        ways += [best[after] for after in graph.after[block] if after != first and after in best]
        if ways and blocks[block][0].address in own:
            work, length, rest = max(ways, key=lambda way: way[:2])
            best[block] = (work + worth[block], length - len(blocks[block]), (block, *rest))
    _, _, way = best.get(first, (0, 0, ()))
    return tuple(instruction for block in way for instruction in blocks[block])


def _graph(code: tuple[Instruction, ...]) -> _Graph:
    index = {instruction.address: place for place, instruction in enumerate(code)}
    leaders = {0}
    for place, instruction in enumerate(code):
        if instruction.target in index:
            leaders.add(index[instruction.target])
        if instruction.target is not None or not instruction.falls:
            leaders.add(place + 1)
    starts = tuple(sorted(leader for leader in leaders if leader < len(code)))
    ends = (*starts[1:], len(code))
    after = []
    for block, end in enumerate(ends):
        last = code[end - 1]
        targets = []
        if last.target in index:
            targets.append(bisect_right(starts, index[last.target]) - 1)
        if last.falls and end < len(code):
            targets.append(block + 1)
        after.append(tuple(targets))
    return _Graph(starts, ends, tuple(after))


def _dominators(graph: _Graph) -> list[int | None]:
    """The immediate dominator of each block that can be reached; block 0 is its own."""
    order = _postorder(graph)
    number = {block: place for place, block in enumerate(order)}
    before = graph.before
    closest: list[int | None] = [None] * len(graph.starts)
    closest[0] = 0
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            if block == 0:
                continue
            known = [source for source in before[block] if closest[source] is not None]
            best = known[0]
            for other in known[1:]:
                best = _meet(best, other, closest, number)
            if closest[block] != best:
                closest[block], changed = best, True
    return closest


def _meet(left: int, right: int, closest: list[int | None], number: dict[int, int]) -> int:
    while left != right:
        while number[left] < number[right]:
            left = closest[left] or 0
        while number[right] < number[left]:
            right = closest[right] or 0
    return left


def _postorder(graph: _Graph, first: int = 0) -> list[int]:
    order: list[int] = []
    seen = {first}
    stack = [(first, iter(graph.after[first]))]
    while stack:
        block, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(graph.after[target])))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def _bodies(graph: _Graph, closest: list[int | None]) -> dict[int, set[int]]:
    """The blocks of each loop, by header."""
    before = graph.before
    bodies: dict[int, set[int]] = {}
    for source, targets in enumerate(graph.after):
        for header in targets:
            if closest[source] is None or not _dominates(header, source, closest):
                continue
            body = bodies.setdefault(header, {header})
            pending = [source]
            while pending:
                block = pending.pop()
                if block not in body:
                    body.add(block)
                    pending += [b for b in before[block] if closest[b] is not None]
    return bodies


def _dominates(header: int, block: int, closest: list[int | None]) -> bool:
    while block not in (header, 0):
        block = closest[block] or 0
    return block == header
