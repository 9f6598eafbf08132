"""In which order waiting requests are considered. Ties go to the older request.

    longest-prefix   most cached tokens first
    hit-ratio        largest cached part of the prompt first
    dfs-weight       depth first through the tree, the branch that most waiting requests share first, and what
                     ends at a node after what goes on below it
    fcfs             as they came

Probes leave no trace in the cache: looking at a request a hundred times does not keep its prefix alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgen.runtime.job import Job
from kgen.runtime.node import Node
from kgen.runtime.radix import RadixCache
from kgen.runtime.results import Probe


def ordered(jobs: Sequence[Job], order: str, cache: RadixCache | None) -> list[Job]:
    """`jobs`, which come by arrival, in the named order (`priority` is a rank, see phases.py)."""
    if order == "fcfs" or cache is None or len(jobs) < 2:
        return list(jobs)
    probed = [(job, cache.probe(job.key, len(job.key) - 1)) for job in jobs]
    return _BY_CACHE[order](probed)


_Probed = Sequence[tuple[Job, Probe]]


def _longest_prefix(probed: _Probed) -> list[Job]:
    return [job for job, _ in sorted(probed, key=lambda pair: -pair[1].length)]


def _hit_ratio(probed: _Probed) -> list[Job]:
    return [job for job, _ in sorted(probed, key=lambda pair: -pair[1].length / len(pair[0].key))]


def _dfs_weight(probed: _Probed) -> list[Job]:
    at: dict[Node, list[Job]] = {}
    for job, probe in probed:
        at.setdefault(probe.node, []).append(job)
    weights: dict[Node, int] = {}
    below: dict[Node, set[Node]] = {}
    roots: dict[Node, None] = {}
    for node, jobs in at.items():
        step = node
        weights[step] = weights.get(step, 0) + len(jobs)
        while step.parent is not None:
            below.setdefault(step.parent, set()).add(step)
            step = step.parent
            weights[step] = weights.get(step, 0) + len(jobs)
        roots[step] = None
    result: list[Job] = []
    heaviest = sorted(roots, key=lambda node: weights[node], reverse=True)  # of equals the oldest first
    pending = [(node, False) for node in reversed(heaviest)]
    while pending:
        node, visited = pending.pop()
        if visited:
            result += at.get(node, [])
        else:
            inner = sorted(below.get(node, ()), key=lambda child: (weights[child], -child.number))
            pending += [(node, True), *((child, False) for child in inner)]
    return result


_BY_CACHE: Mapping[str, Callable[[_Probed], list[Job]]] = {
    "longest-prefix": _longest_prefix,
    "hit-ratio": _hit_ratio,
    "dfs-weight": _dfs_weight,
}
