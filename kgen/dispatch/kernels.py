"""From a bound call to a loaded kernel: chosen among what is built, built where nothing is, and loaded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace

from kgen import env
from kgen.diagnostics import KgenError
from kgen.dispatch import codes, gpu
from kgen.dispatch.buildable import select_buildable
from kgen.dispatch.errors import fault
from kgen.dispatch.flavours import check_flavour
from kgen.dispatch.missing import missing_variant
from kgen.dispatch.model import Bound, Built, Compiler, Names, Selection
from kgen.dispatch.registry import GPU_KINDS, HOST_KINDS, Loaded, Registry, by_arch
from kgen.dispatch.select import complete, on_target
from kgen.dispatch.tuning import Tuning
from kgen.manifest import Policy

log = logging.getLogger("kgen")


class Kernels:
    """The kernels of one process, and who builds those that are not there."""

    def __init__(self, compiler: Compiler, registry: Registry, tuning: Tuning) -> None:
        self._compiler = compiler
        self._registry = registry
        self._tuning = tuning
        self._lock = threading.RLock()

    def choose(self, policy: Policy, bound: Bound, *, anew: bool = False) -> Selection:
        """The variant for a bound call, built or not; `anew`: as if nothing were built. Raises KgenError
        (K51x)."""
        jit = env.jit() and not _is_of_build(policy, bound.names)
        on_gpu = gpu.is_gpu(bound.device)
        native = gpu.arch_of(bound.device) if on_gpu else self._compiler.native()
        arch = bound.names.get("arch")
        fixed = complete(policy, bound.names, str(arch or native))
        kinds = GPU_KINDS if on_gpu else HOST_KINDS
        kernels = self._registry.kernels(policy.op, _without_arch(policy, fixed))
        groups = {} if anew else by_arch(kernel for kernel in kernels if kernel.entry.kind in kinds)
        order = [str(arch)] if arch else [native, *([] if jit or env.arch() else _others(groups, native))]
        best: Selection | None = None
        for name in order:
            names = on_target(policy, fixed, name)
            built = groups.get(name, ())
            found = select_buildable(
                policy, replace(bound, names=names), built, jit, self._tuning, self._compiler.reject
            )
            best = best or found
            if found.kernel is not None:
                return found
        assert best is not None  # order is never empty
        return best

    def load(self, policy: Policy, bound: Bound) -> tuple[Selection, Loaded]:
        """Selection and loaded code; builds what is not built, once more where a file is damaged. Raises
        KgenError."""
        with self._lock:
            return self._load(policy, bound)

    def _load(self, policy: Policy, bound: Bound) -> tuple[Selection, Loaded]:
        selection = self.choose(policy, bound)
        check_flavour(policy, bound, selection.names)
        if selection.kernel is not None:
            try:
                return selection, self._registry.load(selection.kernel)
            except KgenError as error:
                if not env.jit():
                    raise
                log.warning("%s; building it again", error.diagnostics[0].message)
                self._registry.drop(selection.kernel, error.diagnostics[0].message)
        elif self._registry.refresh():  # another process may have built it
            return self._load(policy, bound)
        kernel = self._build(policy, selection)
        if (kernel.entry.kind in GPU_KINDS) != gpu.is_gpu(bound.device):
            message = f"{policy.op}: arch {kernel.entry.target} does not run on tensors on {bound.device}"
            raise fault("K514", message)
        return replace(selection, kernel=kernel), self._registry.load(kernel)

    def _build(self, policy: Policy, selection: Selection) -> Built:
        if _is_of_build(policy, selection.params):
            raise missing_variant(
                policy, selection, self._registry, "masks of a build are built with it alone"
            )
        refused = self._compiler.reject(policy.op, selection.params)
        if refused is not None:
            raise KgenError(refused)
        if not env.jit():
            raise missing_variant(policy, selection, self._registry)
        kernel = self._compiler.build(policy.op, selection.params)
        self._registry.add([kernel])
        return kernel


def _is_of_build(policy: Policy, names: Names) -> bool:
    """Whether the variant is one that a build has defined: nothing of it is built on demand."""
    holder = codes.variant_param(policy)
    named = None if holder is None else names.get(holder.name)
    return named is not None and all(rule.name != named for rule in policy.variants)


def _without_arch(policy: Policy, fixed: Names) -> Names:
    free = (*codes.free_params(policy), "arch")
    return {p.name: fixed[p.name] for p in policy.params if p.name not in free}


def _others(groups: Mapping[str, list[Built]], native: str) -> list[str]:
    """Other archs whose kernels this machine runs, those that use most of it first."""
    names = [name for name in groups if name != native and not name.startswith("sim:")]
    return sorted(names, key=lambda name: (-len(groups[name][0].entry.requires), name))
