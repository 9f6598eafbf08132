"""The data that pass between the steps of a call: arguments, facts, choices, kernels.

arguments -> Call -> bind -> Bound -> select -> Selection -> plan -> launch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kgen.diagnostics import Diagnostic
from kgen.manifest import Code, Entry, Policy, Scalar
from kgen.tuning import TunedClass, TuningTable

Names = Mapping[str, Scalar]
"""Values of parameters and facts by name."""


@dataclass(frozen=True)
class View:
    """What binding sees of a tensor: extents, strides in elements, dtype and device by name. `fp8`: of
    8-bit floats, the name of torch's dtype, which says their flavour."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    fp8: str = ""


@dataclass(frozen=True)
class Call:
    """One call in spec terms. An argument or keyword that was left out is None.

    `keywords` are parameters asked for by name; `policy` names one of a rule's alternatives.
    """

    tensors: Mapping[str, View | None]
    scalars: Mapping[str, int | float | None]
    keywords: Mapping[str, Scalar | None]
    policy: str | None = None


@dataclass(frozen=True)
class Bound:
    """A call whose arguments fit the spec. `names` holds the parameters and facts they fix,
    `requested` the free parameters the caller insists on, `strides` those of each argument by axis.
    `pending` are axes whose size is a fact derived later: (place, size, extent). `fp8`: the torch dtypes of
    arguments that hold 8-bit floats."""

    names: Names
    requested: Names
    strides: Mapping[str, Mapping[str, int]]
    scalars: Mapping[str, int | float | None]
    absent: frozenset[str]
    device: str
    policy: str | None = None
    pending: tuple[tuple[str, Code, int], ...] = ()
    fp8: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """A kernel that can be loaded: its entry and the folder its artefact is relative to."""

    entry: Entry
    folder: Path
    library: str


@dataclass(frozen=True)
class Skipped:
    """A library or kernel that was found and not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Choice:
    """How one free parameter got its value.

    source: `argument`, the name of an environment variable, `tuning table`, `policy NAME` or
    `rule`. `built` are the values the remaining candidates offer; `where` is the rule's place.
    """

    param: str
    value: Scalar
    source: str
    want: Scalar
    pick: str
    built: tuple[Scalar, ...]
    where: str
    why: str


@dataclass(frozen=True)
class Selection:
    """The variant a call gets. `kernel` is None where it is yet to be built. `tuned`: the class of the tuning
    table that the call belongs to; `examined`: the ranges that were looked at to find it."""

    op: str
    names: Names
    params: Names
    choices: tuple[Choice, ...]
    kernel: Built | None
    candidates: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = field(default=(), compare=False)
    tuned: TunedClass | None = None
    examined: tuple[Code, ...] = ()


class Compiler(Protocol):
    """What dispatch needs of the compile half; `kgen.api` hands one in."""

    def policy(self, op: str) -> Policy:
        """The policy of the current spec of `op`."""

    def native(self) -> str:
        """The target that `native` stands for on this machine (KGEN_ARCH names another)."""

    def features(self) -> frozenset[str]:
        """The instruction-set flags of this machine."""

    def reject(self, op: str, params: Names) -> Diagnostic | None:
        """Why this combination is never generated, or None where it can be."""

    def build(self, op: str, params: Names) -> Built:
        """Build one variant. Raises KgenError where it cannot be."""

    def binding(self) -> Path | None:
        """The compiled binding for this Python, or None where it cannot be had."""

    def tuning(self, op: str, target: str) -> tuple[TuningTable, ...]:
        """The tuning tables that hold for kernels of `op` on a target. Raises KgenError for a faulty one."""
