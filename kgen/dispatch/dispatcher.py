"""The dispatcher: from the arguments of a call to a plan, through registry and policy."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

from kgen import env
from kgen.diagnostics import KgenError
from kgen.dispatch import codes, gpu, launch, plain
from kgen.dispatch.arguments import bound_sizes, call_of, shapes_of
from kgen.dispatch.bind import bind, check_pending, with_scalars
from kgen.dispatch.boxes import tensor_map
from kgen.dispatch.buildable import select_buildable
from kgen.dispatch.errors import LATE, ON_GPU, fault, kernel_fault
from kgen.dispatch.flavours import check_flavour
from kgen.dispatch.missing import missing_variant
from kgen.dispatch.model import Bound, Built, Call, Compiler, Names, Selection
from kgen.dispatch.operators import Operator
from kgen.dispatch.overlap import pairs_of, refuse_overlap
from kgen.dispatch.plan import Plan, fill, nothing_to_do, places, steering_scalars, workspace_of
from kgen.dispatch.ranges import pinned, plan_ranges
from kgen.dispatch.registry import GPU_KINDS, HOST_KINDS, Loaded, Registry, by_arch
from kgen.dispatch.select import complete, on_target
from kgen.dispatch.tuning import Tuning
from kgen.dispatch.variants import find_rule, policy_with
from kgen.dispatch.workspace import Workspaces
from kgen.manifest import Policy, VariantRule

log = logging.getLogger("kgen")

MAX_BOUNDS = 256


class Dispatcher:
    """Kernels, policies, plans and workspaces of one process."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.tuning = Tuning(compiler)
        self.workspaces = Workspaces()
        self.errors = gpu.ErrorWords()
        self.registry = Registry(compiler.features, self.policy)
        self._policies: dict[str, Policy] = {}
        self._extended: dict[tuple[str, str], tuple[VariantRule, Policy]] = {}
        self._bounds: dict[object, Bound] = {}
        self._calls: dict[str, ctypes.c_int64] = {}
        self._lock = threading.RLock()
        self._binding: ModuleType | None = None
        self._bound = False

    def policy(self, op: str) -> Policy:
        """The policy of an operator."""
        with self._lock:
            if op not in self._policies:
                self._policies[op] = self.compiler.policy(op)
            return self._policies[op]

    def policy_of(self, operator: Operator) -> Policy:
        """The policy of an operator, with the arguments of its variant."""
        policy, rule = self.policy(operator.name), operator.rule
        if rule is None:
            return policy
        with self._lock:
            held = self._extended.get((operator.name, rule.name))
            if held is None or held[0] is not rule:
                held = self._extended[operator.name, rule.name] = rule, policy_with(policy, rule)
            return held[1]

    def rule(self, op: str, variant: str | None) -> VariantRule | None:
        """The mask and score a call names, or the default one; None where the operator has none.

        Raises KgenError (K516) where there is none of that name, K524 where there are two."""
        policy = self.policy(op)
        shipped = variant is None or any(rule.name == variant for rule in policy.variants)
        return find_rule(policy, {} if shipped else self.registry.rules(op), variant)

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
        policy = self.policy_of(operator)
        return launch.Signature(
            op=operator.name,
            tensors=operator.tensors,
            scalars={name: kind == "float" for name, kind in operator.scalars.items()},
            keywords=tuple(operator.keywords),
            steering=steering_scalars(policy),
            environment=tuple(rule.env for rule in policy.select if rule.env),
        )

    def services(self, operator: Operator) -> launch.Services:
        """What an operator's caller asks of this dispatcher."""
        return launch.Services(
            make_plan=lambda *arguments: self.plan(operator, *arguments),
            fail=_fail,
            overlap=_overlap,
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
        scalars = arguments[split : split + len(operator.scalars)]
        plain.run_plan(ready, signature, self.services(operator), pointers, scalars)

    def plan(self, operator: Operator, *arguments: Any) -> Plan:
        """The plan of a call. Raises KgenError where nothing can run it."""
        policy = self.policy_of(operator)
        call = call_of(operator, arguments)
        bound = self._bind(policy, call)
        _check_absent(policy, bound)
        if nothing_to_do(policy, shapes_of(operator, arguments)):
            return Plan(policy, None, bound.names, 0, (), {}, {}, ranges=pinned(policy, bound))
        if not bound.device.startswith("cpu") and not gpu.is_gpu(bound.device):
            raise fault("K514", f"{policy.op}: there are no kernels for device {bound.device}")
        with self._lock:
            selection, loaded = self._kernel(policy, bound)
        check_pending(policy, bound, selection.names)
        if selection.kernel is not None and selection.kernel.entry.kind != "cpu":
            gpu.check_windows(policy, bound, call.tensors)
        workspace = workspace_of(policy, selection.names)
        pointers = places(policy, "pointer")
        plan = Plan(
            policy=policy,
            selection=selection,
            facts=selection.names,
            address=loaded.address,
            words=tuple(fill(policy, bound, selection.names, workspace, operator.defaults)),
            pointers=pointers,
            scalars=places(policy, "scalar"),
            workspace=tuple((pointers[name], offset) for name, offset in workspace.offsets.items()),
            workspace_size=workspace.size,
            threads=env.num_threads() or 0,
            keep=loaded,
            calls=self._counter(selection),
            pairs=pairs_of(policy, call.tensors),
            ranges=plan_ranges(policy, bound, selection, operator.defaults),
        )
        return self._on_gpu(plan, loaded, bound) if loaded.image else plan

    def _on_gpu(self, plan: Plan, loaded: Loaded, bound: Bound) -> Plan:
        """The plan with what starts its kernels."""
        assert plan.selection is not None and plan.selection.kernel is not None  # something was loaded
        gpu.check_strides(plan.policy, plan.facts, plan.words)
        index = torch.device(bound.device).index or 0
        map_of = partial(tensor_map, plan.policy, bound, plan.facts)
        launcher = gpu.Launcher(
            driver=gpu.driver(),
            device=index,
            steps=gpu.steps(plan.selection.kernel, loaded.image, plan.facts, index, map_of),
            aligned=gpu.row_words(plan.policy, "pointer"),
            error=self.errors.address(plan.policy.op, index),
            checked=env.check(),
        )
        return replace(plan, launcher=launcher)

    def wait(self, plan: Plan) -> None:
        """Wait for a plan that was just launched and raise what its kernels reported; not while a graph
        is captured, which nothing may wait in."""
        if plan.launcher is None or torch.cuda.is_current_stream_capturing():
            return
        told = self.errors.take(plan.policy.op, plan.launcher.device)
        if told[0]:
            raise kernel_fault(plan.policy, plan.facts, told, ON_GPU)

    def check(self) -> None:
        """Raise the first fault that kernels on a GPU reported since the last check; waits for them."""
        for op, device in self.errors.places():
            told = self.errors.take(op, device)
            if told[0]:
                raise kernel_fault(self.policy(op), {}, told, LATE)

    def calls(self) -> Mapping[str, int]:
        """How often each kernel of this process was launched, by variant name."""
        with self._lock:
            return {name: count.value for name, count in sorted(self._calls.items()) if count.value}

    def _counter(self, selection: Selection) -> ctypes.c_int64:
        name = selection.kernel.entry.name if selection.kernel else ""
        with self._lock:
            return self._calls.setdefault(name, ctypes.c_int64())

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

    def choose(self, policy: Policy, bound: Bound) -> Selection:
        """The variant for a bound call, built or not (`explain` shows it). Raises K51x."""
        jit = env.jit() and not _is_of_build(policy, bound.names)
        on_gpu = gpu.is_gpu(bound.device)
        native = gpu.arch_of(bound.device) if on_gpu else self.compiler.native()
        arch = bound.names.get("arch")
        fixed = complete(policy, bound.names, str(arch or native))
        kinds = GPU_KINDS if on_gpu else HOST_KINDS
        kernels = self.registry.kernels(policy.op, _without_arch(policy, fixed))
        groups = by_arch(kernel for kernel in kernels if kernel.entry.kind in kinds)
        order = [str(arch)] if arch else [native, *([] if jit or env.arch() else _others(groups, native))]
        best: Selection | None = None
        for name in order:
            names = on_target(policy, fixed, name)
            built = groups.get(name, ())
            found = select_buildable(
                policy, replace(bound, names=names), built, jit, self.tuning, self.compiler.reject
            )
            best = best or found
            if found.kernel is not None:
                return found
        assert best is not None  # order is never empty
        return best

    def explain(self, op: str, sizes: Names) -> Selection:
        """Which variant serves a call of these sizes, and why (see `arguments.bound_sizes`)."""
        policy = self.policy(op)
        selection = self.choose(policy, bound_sizes(policy, sizes))
        return replace(selection, skipped=self.registry.skipped())

    def workspace_size(self, op: str, sizes: Names) -> int:
        """Bytes of scratch memory a call of these sizes uses (see `arguments.bound_sizes`)."""
        return workspace_of(self.policy(op), self.explain(op, sizes).names).size

    def _kernel(self, policy: Policy, bound: Bound) -> tuple[Selection, Loaded]:
        """Selection and loaded code; builds what is not built, once more where a file is damaged."""
        selection = self.choose(policy, bound)
        check_flavour(policy, bound, selection.names)
        if selection.kernel is not None:
            try:
                return selection, self.registry.load(selection.kernel)
            except KgenError as error:
                if not env.jit():
                    raise
                log.warning("%s; building it again", error.diagnostics[0].message)
                self.registry.drop(selection.kernel, error.diagnostics[0].message)
        elif self.registry.refresh():  # another process may have built it
            return self._kernel(policy, bound)
        kernel = self._build(policy, selection)
        if (kernel.entry.kind in GPU_KINDS) != gpu.is_gpu(bound.device):
            message = f"{policy.op}: arch {kernel.entry.target} does not run on tensors on {bound.device}"
            raise fault("K514", message)
        return replace(selection, kernel=kernel), self.registry.load(kernel)

    def _build(self, policy: Policy, selection: Selection) -> Built:
        if _is_of_build(policy, selection.params):
            raise missing_variant(
                policy, selection, self.registry, "masks of a build are built with it alone"
            )
        refused = self.compiler.reject(policy.op, selection.params)
        if refused is not None:
            raise KgenError(refused)
        if not env.jit():
            raise missing_variant(policy, selection, self.registry)
        kernel = self.compiler.build(policy.op, selection.params)
        self.registry.add([kernel])
        return kernel


def _fail(plan: Plan, _status: int, code: int, row: int, index: int, value: int) -> None:
    raise kernel_fault(plan.policy, plan.facts, (code or _status, row, index, value))


def _overlap(plan: Plan, pair: int, apart: int) -> None:
    refuse_overlap(plan.policy.op, plan.pairs[pair], apart)


def _is_of_build(policy: Policy, names: Names) -> bool:
    """Whether the variant is one that a build has defined: nothing of it is built on demand."""
    holder = codes.variant_param(policy)
    named = None if holder is None else names.get(holder.name)
    return named is not None and all(rule.name != named for rule in policy.variants)


def _refuse(plan: Plan, status: int) -> None:
    """Raise what a driver answered in place of a launch."""
    assert plan.launcher is not None  # something was to be launched
    raise plan.launcher.refusal(status)


def _check_absent(policy: Policy, bound: Bound) -> None:
    tensors = [a for a in policy.arguments if a.kind in ("tensor", "cache") and not a.workspace]
    required = {a.name for a in tensors if not a.optional and a.when is None}
    missing = sorted(bound.absent & required)
    if missing:
        raise fault("K510", f"{policy.op}: {', '.join(missing)} must be given")


def _without_arch(policy: Policy, fixed: Names) -> Names:
    free = (*codes.free_params(policy), "arch")
    return {p.name: fixed[p.name] for p in policy.params if p.name not in free}


def _others(groups: Mapping[str, list[Built]], native: str) -> list[str]:
    """Other archs whose kernels this machine runs, those that use most of it first."""
    names = [name for name in groups if name != native and not name.startswith("sim:")]
    return sorted(names, key=lambda name: (-len(groups[name][0].entry.requires), name))
