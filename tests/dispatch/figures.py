"""Everything of a plan that is a number, for calls given by sizes; no kernel is built or run."""

import functools
from dataclasses import dataclass, replace
from types import SimpleNamespace

from kgen import ops
from kgen.dispatch import gpu
from kgen.dispatch.arguments import bound_sizes
from kgen.dispatch.block import fill
from kgen.dispatch.extents import counted_extents
from kgen.dispatch.operators import OPERATORS
from kgen.dispatch.ranges import follow_decisions
from kgen.dispatch.scratch import scratch_of
from kgen.render.launch import launch_of
from kgen.spec.load import load_catalog
from kgen.variants.matrix import make_variant

CATALOG = load_catalog()


@dataclass(frozen=True)
class Figures:
    """`values` by name: words, parameters of the kernel, workspace, grids. `paths` of those that move;
    `ranges` of the scalars for which that is right."""

    values: dict
    paths: dict
    ranges: dict

    def at(self, **scalars):
        """The values for other scalars and extents of the ranges."""
        return {**self.values, **{name: path.at(scalars[path.of]) for name, path in self.paths.items()}}


def figures(op, scalars, extents=(), **sizes):
    """The figures of a call; `scalars` are its ints, `extents` the sizes that may move."""
    dispatcher, operator = ops.dispatcher(), OPERATORS[op]
    policy = dispatcher.policy(op)
    bound = replace(bound_sizes(policy, {**sizes, **scalars}), scalars={"softmax_scale": 0.5, **scalars})
    selection = dispatcher.choose(policy, bound)
    counted = {name: sizes[name] for name in counted_extents(policy).values() if name in extents}
    tracker = follow_decisions(policy, bound, selection, operator.defaults, counted, extents)
    scratch = scratch_of(policy, tracker)
    words = fill(policy, bound, selection.names, tracker, scratch, operator.defaults)
    launch = _launch(op, tuple(selection.params.items()))
    grids = gpu.grids(SimpleNamespace(entry=SimpleNamespace(name=op, launch=launch)), tracker)
    found = {
        **{word.name: figure for word, figure in zip(policy.words, words, strict=True)},
        "workspace": scratch.size,
        **{f"offset of {name}": offset for name, offset in scratch.offsets.items()},
        **{f"grid {n}{a}": size for n, grid in enumerate(grids) for a, size in zip("xyz", grid, strict=True)},
    }
    values = {name: figure.value for name, figure in found.items() if name not in scalars}
    paths = {name: figure.path for name, figure in found.items() if figure.path is not None}
    return Figures({**values, **selection.params}, paths, dict(tracker.intervals))


@functools.cache
def _launch(op, params):
    return launch_of(make_variant(CATALOG.op(op), dict(params), CATALOG))
