"""From the arguments of a call to its plan: bound, given a kernel, and filled in."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kgen import env
from kgen.dispatch import gpu
from kgen.dispatch.arguments import call_of, shapes_of
from kgen.dispatch.bind import bind, check_pending, with_scalars
from kgen.dispatch.block import fill, places
from kgen.dispatch.boxes import tensor_map
from kgen.dispatch.errors import fault
from kgen.dispatch.extents import counted_extents, moving_extents
from kgen.dispatch.intervals import Tracked
from kgen.dispatch.kernels import Kernels
from kgen.dispatch.model import Bound, Call, Selection
from kgen.dispatch.operators import Operator
from kgen.dispatch.overlap import pairs_of
from kgen.dispatch.paths import Path
from kgen.dispatch.plan import Moves, Plan, nothing_to_do
from kgen.dispatch.ranges import follow_decisions, pinned
from kgen.dispatch.registry import Loaded
from kgen.dispatch.scratch import scratch_of
from kgen.dispatch.tracking import Tracker
from kgen.manifest import Policy

MAX_BOUNDS = 256


class Planner:
    """Makes plans, so many so far as `made` says, and counts the launches of each kernel."""

    def __init__(self, kernels: Kernels, errors: gpu.ErrorWords) -> None:
        self.made = 0
        self._kernels = kernels
        self._errors = errors
        self._bounds: dict[object, Bound] = {}
        self._counters: dict[str, ctypes.c_int64] = {}
        self._lock = threading.RLock()

    def plan(self, operator: Operator, policy: Policy, arguments: Sequence[Any]) -> Plan:
        """The plan of a call. Raises KgenError where nothing can run it."""
        call = call_of(operator, arguments)
        bound = self._bind(policy, call)
        self.made += 1
        _check_absent(policy, bound)
        counted = counted_extents(policy)
        extents, moving = moving_extents(counted, bound.names, call.tensors)
        if nothing_to_do(policy, shapes_of(operator, arguments)):
            return Plan(policy, None, bound.names, 0, (), {}, {}, ranges=pinned(policy, bound, extents))
        if not bound.device.startswith("cpu") and not gpu.is_gpu(bound.device):
            raise fault("K514", f"{policy.op}: there are no kernels for device {bound.device}")
        selection, loaded = self._kernels.load(policy, bound)
        check_pending(policy, bound, selection.names)
        if selection.kernel is not None and selection.kernel.entry.kind != "cpu":
            stepped = selection.kernel.entry.kind != "cuda"
            gpu.check_windows(policy, bound, call.tensors, stepped=stepped)
        tracker = follow_decisions(policy, bound, selection, operator.defaults, extents, moving)
        plan = self._filled(operator, policy, bound, selection, loaded, tracker)
        along = {tensor: name for tensor, name in counted.items() if name in moving}
        plan = replace(plan, pairs=pairs_of(policy, call.tensors, along))
        plan = self._on_gpu(plan, loaded, bound, tracker, along) if loaded.image else plan
        return replace(plan, ranges=dict(tracker.intervals))

    def counts(self) -> Mapping[str, int]:
        """How often each kernel was launched, by variant name."""
        with self._lock:
            return {name: count.value for name, count in sorted(self._counters.items()) if count.value}

    def _filled(
        self,
        operator: Operator,
        policy: Policy,
        bound: Bound,
        selection: Selection,
        loaded: Loaded,
        tracker: Tracker,
    ) -> Plan:
        """The plan but for what it keeps apart and the start of a GPU's kernels."""
        scratch = scratch_of(policy, tracker)
        words = fill(policy, bound, selection.names, tracker, scratch, operator.defaults)
        pointers = places(policy, "pointer")
        offsets = {pointers[name]: offset for name, offset in scratch.offsets.items()}
        return Plan(
            policy=policy,
            selection=selection,
            facts=selection.names,
            address=loaded.address,
            words=tuple(word.value for word in words),
            pointers=pointers,
            scalars=places(policy, "scalar"),
            workspace={place: offset.value for place, offset in offsets.items()},
            workspace_size=scratch.size.value,
            threads=env.num_threads() or 0,
            keep=loaded,
            calls=self._counter(selection),
            moves=Moves(_paths(dict(enumerate(words))), scratch.size.path, _paths(offsets)),
        )

    def _on_gpu(
        self, plan: Plan, loaded: Loaded, bound: Bound, tracker: Tracker, along: Mapping[str, str]
    ) -> Plan:
        """The plan with what starts its kernels."""
        assert plan.selection is not None and plan.selection.kernel is not None  # something was loaded
        gpu.check_strides(plan.policy, plan.facts, plan.words)
        index = torch.device(bound.device).index or 0
        grids = gpu.grids(plan.selection.kernel, tracker)
        map_of = partial(tensor_map, plan.policy, bound, plan.facts, moving=along)
        launcher = gpu.Launcher(
            driver=gpu.driver(),
            device=index,
            steps=gpu.steps(plan.selection.kernel, loaded.image, grids, index, map_of),
            aligned=gpu.row_words(plan.policy, "pointer"),
            error=self._errors.address(plan.policy.op, index),
            checked=env.check(),
        )
        sizes = {(step, axis): size for step, grid in enumerate(grids) for axis, size in enumerate(grid)}
        moves = replace(plan.moves, grids={at: size.path for at, size in sizes.items() if size.path})
        return replace(plan, launcher=launcher, moves=moves)

    def _counter(self, selection: Selection) -> ctypes.c_int64:
        name = selection.kernel.entry.name if selection.kernel else ""
        with self._lock:
            return self._counters.setdefault(name, ctypes.c_int64())

    def _bind(self, policy: Policy, call: Call) -> Bound:
        """`bind`, done once for calls that differ in scalars only, as the steps of a decode loop do."""
        keywords = tuple((type(value), value) for value in call.keywords.values())
        key = (policy.op, tuple(call.tensors.values()), keywords, call.policy)
        try:
            held = self._bounds.get(key)
        except TypeError:  # a keyword that cannot be hashed cannot be right: let `bind` say so
            return bind(policy, call)
        if held is None:
            held = bind(policy, call)
            if len(self._bounds) >= MAX_BOUNDS:
                self._bounds.clear()
            self._bounds[key] = held
        return with_scalars(policy, held, call)


def _paths(figures: Mapping[int, Tracked]) -> Mapping[int, Path]:
    return {place: figure.path for place, figure in figures.items() if figure.path is not None}


def _check_absent(policy: Policy, bound: Bound) -> None:
    tensors = [a for a in policy.arguments if a.kind in ("tensor", "cache") and not a.workspace]
    required = {a.name for a in tensors if not a.optional and a.when is None}
    missing = sorted(bound.absent & required)
    if missing:
        raise fault("K510", f"{policy.op}: {', '.join(missing)} must be given")
