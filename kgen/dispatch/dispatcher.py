"""The dispatcher: policies, kernels, plans and workspaces of a process, and the callers made of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

from kgen import env
from kgen.diagnostics import KgenError
from kgen.dispatch import gpu, launch, plain
from kgen.dispatch.arguments import bound_sizes
from kgen.dispatch.errors import LATE, ON_GPU, kernel_fault
from kgen.dispatch.extents import counted_extents
from kgen.dispatch.kernels import Kernels
from kgen.dispatch.model import Bound, Compiler, Names, Selection
from kgen.dispatch.operators import Operator
from kgen.dispatch.overlap import refuse_overlap
from kgen.dispatch.plan import Plan, moved, steering_scalars
from kgen.dispatch.planner import Planner
from kgen.dispatch.policies import Policies
from kgen.dispatch.registry import Registry
from kgen.dispatch.scratch import scratch_of
from kgen.dispatch.tracking import Tracker
from kgen.dispatch.tuning import Tuning
from kgen.dispatch.workspace import Workspaces
from kgen.manifest import Policy, VariantRule

log = logging.getLogger("kgen")


class Dispatcher:
    """Kernels, policies, plans and workspaces of one process."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.policies = Policies(compiler)
        self.tuning = Tuning(compiler)
        self.workspaces = Workspaces()
        self.errors = gpu.ErrorWords()
        self.registry = Registry(compiler.features, self.policy)
        self.kernels = Kernels(compiler, self.registry, self.tuning)
        self.planner = Planner(self.kernels, self.errors)
        self._lock = threading.RLock()
        self._binding: ModuleType | None = None
        self._bound = False

    def policy(self, op: str) -> Policy:
        """The policy of an operator."""
        return self.policies.policy(op)

    def rule(self, op: str, variant: str | None) -> VariantRule | None:
        """The mask and score a call names, or the default one (see `Policies.rule`)."""
        return self.policies.rule(op, variant, self.registry)

    def binding(self) -> ModuleType | None:
        """The compiled binding; None where it cannot be had or KGEN_NO_PYBIND asks for ctypes."""
        if env.no_pybind():
            return None
        with self._lock:
            if not self._bound:
                self._bound, self._binding = True, self._load_binding()
            return self._binding

    def _load_binding(self) -> ModuleType | None:
        try:
            path = self.compiler.binding()
            return None if path is None else launch.load_binding(path)
        except (KgenError, ImportError) as error:
            log.info("calling kernels through ctypes: %s", str(error).splitlines()[0])
            return None

    def caller(self, operator: Operator) -> Callable[..., bool]:
        """What launches the calls of an operator."""
        signature, services = self.signature(operator), self.services(operator)
        binding = self.binding()
        if binding is None:
            return plain.PlainCaller(signature, services)
        caller: Callable[..., bool] = launch.compiled_caller(binding, signature, services)
        return caller

    def signature(self, operator: Operator) -> launch.Signature:
        """The positional arguments of an operator's caller."""
        policy = self.policies.policy_of(operator)
        return launch.Signature(
            op=operator.name,
            tensors=operator.tensors,
            scalars={name: kind == "float" for name, kind in operator.scalars.items()},
            keywords=tuple(operator.keywords),
            steering=steering_scalars(policy),
            environment=tuple(rule.env for rule in policy.select if rule.env),
            extents=counted_extents(policy),
        )

    def services(self, operator: Operator) -> launch.Services:
        """What an operator's caller asks of this dispatcher."""
        names = self.signature(operator).values
        return launch.Services(
            make_plan=lambda *arguments: self.plan(operator, *arguments),
            fail=partial(_fail, names),
            overlap=partial(_overlap, names),
            workspace=self.workspaces.address,
            stream=gpu.stream_lookup(),
            refuse=_refuse,
            wait=self.wait,
        )

    def run(self, operator: Operator, *arguments: Any) -> None:
        """Make a plan for one call and run it, whatever its tensors are; nothing is kept."""
        signature = self.signature(operator)
        ready = plain.ready_plan(self.plan(operator, *arguments))
        split = len(operator.tensors)
        pointers = tuple(0 if tensor is None else tensor.data_ptr() for tensor in arguments[:split])
        values = plain.values_of(signature, arguments)
        plain.run_plan(ready, signature, self.services(operator), pointers, values)

    def plan(self, operator: Operator, *arguments: Any) -> Plan:
        """The plan of a call. Raises KgenError where nothing can run it."""
        return self.planner.plan(operator, self.policies.policy_of(operator), arguments)

    def wait(self, plan: Plan) -> None:
        """Wait for a plan that was just launched and raise what its kernels reported; not while a graph
        is captured, which nothing may wait in."""
        if plan.launcher is None or torch.cuda.is_current_stream_capturing():
            return
        told = self.errors.take(plan.policy.op, plan.launcher.device)
        if told[0]:
            still = {name: fact for name, fact in plan.facts.items() if name not in plan.ranges}
            raise kernel_fault(plan.policy, still, told, ON_GPU)

    def check(self) -> None:
        """Raise the first fault that kernels on a GPU reported since the last check; waits for them."""
        for op, device in self.errors.places():
            told = self.errors.take(op, device)
            if told[0]:
                raise kernel_fault(self.policy(op), {}, told, LATE)

    def calls(self) -> Mapping[str, int]:
        """How often each kernel of this process was launched, by variant name."""
        return self.planner.counts()

    def choose(self, policy: Policy, bound: Bound, *, anew: bool = False) -> Selection:
        """The variant for a bound call, built or not (`explain` shows it). Raises KgenError (K51x)."""
        return self.kernels.choose(policy, bound, anew=anew)

    def explain(self, op: str, sizes: Names, *, anew: bool = False) -> Selection:
        """Which variant serves a call of these sizes, and why (see `arguments.bound_sizes`); `anew`: which
        one would be built for it if none were."""
        policy = self.policy(op)
        selection = self.choose(policy, bound_sizes(policy, sizes), anew=anew)
        derived = {name for name, _ in policy.lets}
        told = {name: value for name, value in selection.names.items() if name not in derived}
        return replace(selection, names=told, skipped=self.registry.skipped())

    def workspace_size(self, op: str, sizes: Names) -> int:
        """Bytes of scratch memory a call of these sizes uses (see `arguments.bound_sizes`)."""
        policy = self.policy(op)
        tracker = Tracker(self.choose(policy, bound_sizes(policy, sizes)).names, {})
        size: int = scratch_of(policy, tracker).size.value
        return size


def _fail(names: Sequence[str], plan: Plan, values: Sequence[int], status: int, *told: int) -> None:
    code, row, index, value = told
    facts = moved(plan, dict(zip(names, values, strict=True))).facts
    raise kernel_fault(plan.policy, facts, (code or status, row, index, value))


def _overlap(names: Sequence[str], plan: Plan, values: Sequence[int], pair: int, apart: int) -> None:
    here = moved(plan, dict(zip(names, values, strict=True)))
    refuse_overlap(plan.policy.op, here.pairs[pair], apart)


def _refuse(plan: Plan, status: int) -> None:
    """Raise what a driver answered in place of a launch."""
    assert plan.launcher is not None  # something was to be launched
    raise plan.launcher.refusal(status)
