"""The bridge between the compile half and the run half: what a built library says of itself.

Three documents, all JSON:

* `Entry`: one built kernel: parameters, artefact, symbol, resources.
* `Policy`: one operator: its argument block, facts, guards and selection rules, compiled from
  the operator's spec; keyed by the hash of that spec.
* `Library`: entries and policies together (`library.json` beside the artefacts).

Expressions cross the bridge as `Code`: nested JSON lists that `kgen.semantics.evaluate` runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 1
ABI_VERSION = 1

Scalar = int | float | bool | str
Code = list[Any]
"""`["int", 3]`, `["name", "group"]`, `["//", a, b]`, `["call", "min", a, b]`, ... (JSON)"""

# The first words of every argument block, on every target. `error` points to four int64:
# code, row, index, value. `parallel` and `thread_num` are the addresses of GOMP_parallel and
# omp_get_thread_num of the OpenMP runtime the process already has, or 0 to run serially.
HEADER = ("abi", "words", "error", "parallel", "thread_num", "num_threads")

FLAVOUR = "target.fp8"
"""Which 8-bit floats (`kgen.fp8`) kernels of a target read, among what a policy says of its targets."""

# What a launch may answer. 0 is success; the kernel has written nothing on any other answer.
ERRORS: Mapping[str, int] = {
    "abi": 1,  # the block was filled for another version of this library
    "block_id": 2,  # row, index in the table, the id
    "seq_len": 3,  # row, limit, the length
    "slot": 4,  # token, num_slots, the slot
    "overlap": 5,  # pair, other pair, the block id
    "alignment": 6,  # word of the argument block, bytes to align to, the value
    "fault": 7,  # simulator only: linear block id, thread, source line of a faulty kernel
    "indptr": 8,  # entry, 0 for qo_indptr or 1 for kv_indptr, the value
    "extend_len": 9,  # row, limit, the number of new tokens
    "scale": 10,  # KV head, 0 for k_scale or 1 for v_scale, the bits of the float
}


@dataclass(frozen=True)
class Word:
    """One int64 of the argument block.

    kind: `pointer` (0 where an optional tensor is absent), `stride` (elements along `axis`),
    `int`, `float` (the bits of a double) or `fact` (an int derived from shapes and scalars).
    """

    name: str
    kind: str
    argument: str = ""
    axis: str = ""


@dataclass(frozen=True)
class AxisRule:
    """An axis of a tensor argument: its name and its size. A `Code` that is a bare name not
    yet known defines that fact; anything else is a check. `unit`: the stride must be 1."""

    name: str
    size: Code
    unit: bool = False


@dataclass(frozen=True)
class ArgumentRule:
    """A tensor or scalar argument of the operator.

    kind: `tensor`, `cache` (a KV cache in the variant's layout; `cache` is k or v), `int`,
    `float`. dtype: a dtype name, or the name of the parameter that holds it. access: read,
    write or update. `workspace`: dispatch allocates it when the variant needs it (`when`); `zeroed`: it is
    all zeros before the first call, and every call leaves it so. Where it is no workspace and has a `when`, a
    call gives it where that holds and nowhere else, `because` of the reason. `broadcast`: one element may
    stand for all along an axis, by a stride of 0.
    """

    name: str
    kind: str
    dtype: str = ""
    axes: tuple[AxisRule, ...] = ()
    cache: str = ""
    access: str = "read"
    optional: bool = False
    workspace: bool = False
    when: Code | None = None
    zeroed: bool = False
    because: str = ""
    broadcast: bool = False


@dataclass(frozen=True)
class Guard:
    """What a call must satisfy, in the words of the spec; `where` is `file:line:col`."""

    check: Code
    because: str
    where: str


@dataclass(frozen=True)
class VariantArg:
    """An argument of a mask or score. kind: `int` or `float`; axis: empty for a single value, else what
    an array has values for: `head`, `batch`, `q` (each query row) or `kv` (each key of each sequence)."""

    name: str
    kind: str
    axis: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}{f'[{self.axis}]' if self.axis else ''}"


@dataclass(frozen=True)
class VariantRule:
    """A mask and score as dispatch sees it: its arguments, in the order of their words at the end of the
    block, and what single values among them must satisfy."""

    name: str
    args: tuple[VariantArg, ...]
    guards: tuple[Guard, ...] = ()
    mask: Code | None = None
    score: Code | None = None
    where: str = ""

    @property
    def meaning(self) -> tuple[object, ...]:
        """What two definitions of one meaning agree in, wherever they stand."""
        return self.name, self.args, self.mask, self.score


@dataclass(frozen=True)
class SelectRule:
    """How a free parameter is chosen: `want` is computed from facts and earlier choices; `pick`
    says which built value serves it: `at_least` (smallest >= want, else the largest), `nearest`
    or `exact`. `env` names an environment variable that overrides it. `policies`: alternatives
    by name; `want` is the one named `default`. One may name others, each as its `alternative`."""

    param: str
    want: Code
    pick: str
    where: str
    default: str = ""
    policies: Mapping[str, Code] = dataclasses.field(default_factory=dict)
    env: str = ""


def alternative(param: str, policy: str) -> str:
    """The name that stands for a policy of a parameter in others: `partition_size.vllm`."""
    return f"{param}.{policy}"


@dataclass(frozen=True)
class ParamRule:
    """A parameter as dispatch sees it. `values` are the legal ones, when they are listed."""

    name: str
    type: str
    tag: str
    values: tuple[Scalar, ...] = ()
    default: Code | None = None
    where: str = ""


@dataclass(frozen=True)
class Policy:
    """Everything dispatch must know of an operator."""

    op: str
    spec_hash: str
    params: tuple[ParamRule, ...]
    arguments: tuple[ArgumentRule, ...]
    words: tuple[Word, ...]
    facts: tuple[tuple[str, Code], ...]  # derived facts, in order
    guards: tuple[Guard, ...]
    select: tuple[SelectRule, ...]
    layouts: Mapping[str, Any]  # name -> kgen.layout.Layout as JSON
    variants: tuple[VariantRule, ...] = ()  # those of the specs; a build's are with its entries
    positions: Mapping[str, Code] = dataclasses.field(default_factory=dict)  # axis of an array -> its size
    # What expressions ask of a target: its name -> `target.wave` -> value.
    targets: Mapping[str, Mapping[str, Scalar]] = dataclasses.field(default_factory=dict)
    # Derived values that those expressions name, in order: each is made of parameters, what is asked of the
    # target and those before it. One that has no value for a call is not known there.
    lets: tuple[tuple[str, Code], ...] = ()
    sources: str = ""  # hash of the templates and targets that kernels were made from, where it is known
    version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Box:
    """What a copy engine brings of a tensor at once: `rows` of its tokens (of a cache; else of its first
    axis), one head, `dims` of it (0: all). How the tensor lies is a parameter of the kernel, behind the
    argument block."""

    argument: str
    rows: int
    dims: int = 0


@dataclass(frozen=True)
class Launch:
    """How a GPU kernel is launched: expressions over parameters and facts. `symbol` is the kernel,
    the entry's own when empty; `then` is launched after it, on the same stream and arguments."""

    grid: tuple[Code, Code, Code]
    block: int
    dynamic_lds: int = 0
    symbol: str = ""
    boxes: tuple[Box, ...] = ()
    then: Launch | None = None


@dataclass(frozen=True)
class Entry:
    """One built kernel. `artefact` is relative to the folder of the document that names it."""

    name: str
    op: str
    key: str
    params: Mapping[str, Scalar]
    target: str
    kind: str  # "cpu", "sim", "cuda", "hip"
    artefact: str
    symbol: str
    sha256: str
    requires: tuple[str, ...] = ()  # CPU feature flags the host must have
    resources: Mapping[str, Scalar] = dataclasses.field(default_factory=dict)
    launch: Launch | None = None
    variant: VariantRule | None = None  # where a build defined it
    compile_seconds: float = 0.0
    abi: int = ABI_VERSION
    version: int = SCHEMA_VERSION


def tail_words(rule: VariantRule) -> tuple[Word, ...]:
    """The words of a variant's arguments, which follow those of the operator. The prefix keeps their
    names apart from the operator's; an array over keys has a row for each sequence."""
    words: list[Word] = []
    for arg in rule.args:
        word = f"v_{arg.name}"
        words.append(Word(word, "pointer" if arg.axis else arg.kind, arg.name))
        if arg.axis == "kv":
            words.append(Word(f"{word}_stride_seq", "stride", arg.name, "seq"))
    return tuple(words)


@dataclass(frozen=True)
class Library:
    """Kernels that were built together, with the policies they were built under."""

    name: str
    entries: tuple[Entry, ...]
    policies: tuple[Policy, ...]
    version: int = SCHEMA_VERSION


def to_json(document: Entry | Policy | Library) -> str:
    """Stable text: sorted keys, one trailing newline. Same document, same bytes."""
    return json.dumps(dataclasses.asdict(document), sort_keys=True, indent=1) + "\n"
