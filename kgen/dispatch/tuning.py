"""The tuning tables of this process: read when a call of their operator is first planned, and again where
KGEN_TUNE_DIR names another folder. What cannot be used is told once and left to the rules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from kgen import paths
from kgen.diagnostics import KgenError
from kgen.dispatch.extents import counted_extents
from kgen.dispatch.model import Built, Compiler, Names
from kgen.dispatch.plan import steering_scalars
from kgen.manifest import Policy
from kgen.tuning import TunedClass, TuningTable

log = logging.getLogger("kgen")

SIMULATED = "sim:"


class Tuning:
    """Tables by operator and target."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._folder: Path | None = None
        self._tables: dict[tuple[str, str], tuple[TuningTable, ...]] = {}
        self._told: set[str] = set()

    def classes(self, policy: Policy, names: Names) -> Sequence[TunedClass]:
        """The classes whose exact values a call has, but for scalars and extents that plans have ranges for,
        in the order in which they are asked; none for the simulator, whose time means nothing. Raises
        KgenError for a table that is faulty."""
        arch = str(names["arch"])
        if not policy.select or arch.startswith(SIMULATED):
            return ()
        tables = self._of(policy.op, arch)
        if not tables:
            return ()
        moving = {*counted_extents(policy).values(), *(a.name for a in policy.arguments if a.kind == "int")}
        fitting = (one for table in tables for one in table.fitting(names, moving))
        return [one for one in fitting if self._follows(policy, one)]

    def usable(
        self, policy: Policy, kernels: Sequence[Built], jit: bool
    ) -> Callable[[TunedClass, Names], bool]:
        """Whether what a class wants is built among `kernels`, or with `jit` can be."""

        def usable(one: TunedClass, names: Names) -> bool:
            if any(one.use.items() <= kernel.entry.params.items() for kernel in kernels):
                return True
            if jit and self._can_be_built(policy, {**names, **one.use}):
                return True
            wanted = ", ".join(f"{name} {value}" for name, value in one.use.items())
            self._tell(f"{one.where} of a tuning table is passed over: no kernel has {wanted}")
            return False

        return usable

    def _can_be_built(self, policy: Policy, names: Names) -> bool:
        """Whether a variant is accepted; False too where not every free parameter is said."""
        params = {p.name: names[p.name] for p in policy.params if p.name in names}
        try:
            return len(params) == len(policy.params) and self._compiler.reject(policy.op, params) is None
        except KgenError:  # a value that the parameter no longer has
            return False

    def _of(self, op: str, arch: str) -> tuple[TuningTable, ...]:
        folder = paths.tune_dir()
        if folder != self._folder:
            self._folder = folder
            self._tables.clear()
        if (op, arch) not in self._tables:
            self._tables[op, arch] = self._compiler.tuning(op, arch)
        return self._tables[op, arch]

    def _follows(self, policy: Policy, one: TunedClass) -> bool:
        """Whether plans are told apart by every scalar that a class asks for."""
        scalars = {rule.name for rule in policy.arguments if rule.kind in ("int", "float")}
        blind = sorted(one.names & scalars - steering_scalars(policy))
        if blind:
            self._tell(f"{one.where} of a tuning table is passed over: {blind[0]} steers no call")
        return not blind

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            log.warning("%s", line)
