"""A toy operator whose kernel copies its argument block out, and the compiler that makes it.

`echo` receives every word of the block. The scalar `fail` makes the kernel report that error code
with row 3, index 4, value 5 and write nothing.
"""

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kgen.diagnostics import Diagnostic
from kgen.dispatch.dispatcher import Dispatcher
from kgen.dispatch.model import Built
from kgen.dispatch.operators import Operator
from kgen.manifest import (
    HEADER,
    ArgumentRule,
    AxisRule,
    Entry,
    Guard,
    Library,
    ParamRule,
    Policy,
    Scalar,
    SelectRule,
    Word,
    to_json,
)
from kgen.tuning import TuningTable

SOURCE = """
#include <cstdint>
#include <cstring>
extern "C" int NAME(const int64_t* args) {
  if (int64_t code = args[FAIL]) {
    int64_t* error = reinterpret_cast<int64_t*>(args[2]);
    error[0] = code; error[1] = 3; error[2] = 4; error[3] = 5;
    return static_cast<int>(code);
  }
  std::memcpy(reinterpret_cast<void*>(args[6]), args, args[1] * sizeof(int64_t));
  return 0;
}
"""


def name(text):
    return ["name", text]


def integer(value):
    return ["int", value]


def axis(axis_name, size):
    return AxisRule(axis_name, size if isinstance(size, list) else name(size))


ORDER = {"axes": ["block", "token", "head", "dim"], "split": None}
PACKED = {"axes": ["block", "head", "dim", "token", "inner"], "split": 0}
TURNED = {"axes": ["block", "head", "dim", "token"], "split": None}
LAYOUTS = {
    "bshd": {"name": "bshd", "k": ORDER, "v": ORDER},
    "packed": {"name": "packed", "k": PACKED, "v": TURNED},
    "half": {"name": "half", "k": ORDER, "v": None, "because": "no source says so"},
}

ROW, HEAD = axis("row", "num_rows"), axis("head", "num_heads")

ARGUMENTS = (
    ArgumentRule("echo", "tensor", "i64", (axis("word", "num_words"),), access="write"),
    ArgumentRule("lse", "tensor", "f32", (ROW, HEAD), access="write", optional=True),
    ArgumentRule("x", "tensor", "dtype", (ROW, HEAD, axis("dim", "head_dim"))),
    ArgumentRule("k_cache", "cache", "kv_dtype", cache="k"),
    ArgumentRule("v_cache", "cache", "kv_dtype", cache="v"),
    ArgumentRule("scale", "float"),
    ArgumentRule("limit", "int"),
    ArgumentRule("fail", "int"),
    ArgumentRule(
        "sums",
        "tensor",
        "f32",
        (axis("row", "num_rows"), axis("part", "num_parts")),
        workspace=True,
        when=[">", name("partition_size"), integer(0)],
    ),
    ArgumentRule(
        "parts",
        "tensor",
        "f32",
        (axis("row", "num_rows"), axis("part", "num_parts"), axis("dim", "head_dim")),
        workspace=True,
        when=[">", name("partition_size"), integer(0)],
    ),
)

WORDS = (
    *(Word(text, "int") for text in HEADER),
    Word("echo", "pointer", "echo"),
    Word("lse", "pointer", "lse"),
    Word("lse_stride_row", "stride", "lse", "row"),
    Word("x", "pointer", "x"),
    Word("x_stride_row", "stride", "x", "row"),
    Word("x_stride_head", "stride", "x", "head"),
    *(
        word
        for cache in ("k_cache", "v_cache")
        for word in (
            Word(cache, "pointer", cache),
            *(Word(f"{cache}_stride_{a}", "stride", cache, a) for a in ("block", "head", "token", "dim")),
        )
    ),
    Word("scale", "float", "scale"),
    Word("limit", "int", "limit"),
    Word("fail", "int", "fail"),
    Word("sums", "pointer", "sums"),
    Word("sums_stride_row", "stride", "sums", "row"),
    Word("parts", "pointer", "parts"),
    Word("parts_stride_row", "stride", "parts", "row"),
    Word("parts_stride_part", "stride", "parts", "part"),
    *(Word(f, "fact") for f in ("num_words", "num_rows", "num_heads", "num_blocks", "num_kv_heads")),
    *(Word(f, "fact") for f in ("group", "passes", "num_parts")),
)

GROUP = ["//", name("num_heads"), name("num_kv_heads")]

POLICY = Policy(
    op="toy",
    spec_hash="toy-spec-1",
    params=(
        ParamRule("arch", "target", "{}"),
        ParamRule("dtype", "dtype", "{}", values=("f32", "f16", "bf16")),
        ParamRule("kv_dtype", "dtype", "kv{}", values=("f32", "f16", "bf16"), default=name("dtype")),
        ParamRule("head_dim", "int", "d{}"),
        ParamRule("block_size", "int", "b{}", values=(1, 16, 32)),
        ParamRule("layout", "layout", "{}"),
        ParamRule("reuse", "int", "r{}", values=(1, 2, 4, 8, 16)),
        ParamRule("partition_size", "int", "p{}", default=integer(0)),
    ),
    arguments=ARGUMENTS,
    words=WORDS,
    facts=(
        ("group", GROUP),
        ("passes", ["call", "ceil_div", name("group"), name("reuse")]),
        (
            "num_parts",
            [
                "if",
                [">", name("partition_size"), integer(0)],
                ["call", "ceil_div", name("limit"), name("partition_size")],
                integer(1),
            ],
        ),
    ),
    guards=(
        Guard(
            [
                "and",
                [">", name("num_kv_heads"), integer(0)],
                ["==", ["%", name("num_heads"), name("num_kv_heads")], integer(0)],
            ],
            "num_heads must be a multiple of num_kv_heads",
            "toy.yaml:40:5",
        ),
        Guard([">=", name("limit"), integer(0)], "limit is a length", "toy.yaml:42:5"),
    ),
    select=(
        SelectRule("reuse", name("group"), "at_least", "toy.yaml:50:3"),
        SelectRule(
            "partition_size",
            integer(0),
            "exact",
            "toy.yaml:51:3",
            default="long",
            policies={
                "long": ["if", ["<=", name("limit"), integer(100)], integer(0), integer(512)],
                "always": integer(512),
                "never": integer(0),
            },
            env="PA_PARTITION_SIZE",
        ),
    ),
    layouts=LAYOUTS,
)

OPERATOR = Operator(
    name="toy",
    tensors=("echo", "x", "k_cache", "v_cache", "lse"),
    writes=frozenset({"echo", "lse"}),
    scalars={"scale": "float", "limit": "int", "fail": "int"},
    keywords={
        "layout": "str",
        "partition_size": "int",
        "reuse": "int",
        "policy": "str",
        "arch": "str",
    },
    optional=frozenset({"lse"}),
    defaults={"scale": lambda facts: 1.0 / float(facts["head_dim"])},
)

BASE = {
    "arch": "toy",
    "dtype": "f32",
    "kv_dtype": "f32",
    "head_dim": 8,
    "block_size": 16,
    "layout": "bshd",
    "reuse": 4,
    "partition_size": 0,
}


def variant_name(params):
    return "toy_" + "_".join(str(value) for value in params.values())


class ToyCompiler:
    """A compiler for the toy: counts what it builds, and refuses what the toy's rule refuses."""

    def __init__(self, folder: Path, binding: Path | None = None, features=frozenset({"toy1", "toy2"})):
        self.folder = folder
        self.path = binding
        self.host = features
        self.built: list[Mapping[str, Scalar]] = []
        self.current = POLICY
        self.tables: tuple[TuningTable, ...] = ()

    def policy(self, op: str) -> Policy:
        return self.current

    def native(self) -> str:
        return "toy"

    def features(self) -> frozenset[str]:
        return self.host

    def reject(self, op: str, params: Mapping[str, Scalar]) -> Diagnostic | None:
        if params["partition_size"] % params["block_size"] == 0:
            return None
        return Diagnostic(
            "K522", f"{op}: this combination is never generated: a partition is a whole number of pages"
        )

    def build(self, op: str, params: Mapping[str, Scalar]) -> Built:
        self.built.append(dict(params))
        return self.make(**params)

    def binding(self) -> Path | None:
        return self.path

    def tuning(self, op: str, target: str) -> tuple[TuningTable, ...]:
        return tuple(table for table in self.tables if (table.op, table.target) == (op, target))

    def make(self, requires=(), library="toys", **params) -> Built:
        """Compile one variant: BASE with `params` changed."""
        params = {**BASE, **params}
        symbol = variant_name(params)
        path = self.folder / f"{symbol}.so"
        if not path.exists():
            place = next(i for i, word in enumerate(WORDS) if word.name == "fail")
            text = SOURCE.replace("NAME", symbol).replace("FAIL", str(place))
            command = ["g++", "-shared", "-fPIC", "-O1", "-x", "c++", "-", "-o", str(path)]
            subprocess.run(command, input=text, text=True, check=True)
        entry = Entry(
            name=symbol,
            op="toy",
            key=symbol,
            params=params,
            target=str(params["arch"]),
            kind="cpu",
            artefact=path.name,
            symbol=symbol,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            requires=requires,
        )
        return Built(entry, self.folder, library)


def with_entry(built: Built, **changes) -> Built:
    return replace(built, entry=replace(built.entry, **changes))


def toy_dispatcher(compiler: ToyCompiler, *variants: Mapping[str, Scalar]) -> Dispatcher:
    """A dispatcher that has these variants of the toy built."""
    dispatcher = Dispatcher(compiler)
    dispatcher.registry.add([compiler.make(**params) for params in variants])
    return dispatcher


def write_library(
    folder: Path, kernels, monkeypatch=None, policy=POLICY, name="toys", file="library.json"
) -> Path:
    """library.json in `folder`, which KGEN_LIBRARY then names."""
    path = folder / file
    path.write_text(to_json(Library("toys", tuple(kernel.entry for kernel in kernels), (policy,))))
    if monkeypatch is not None:
        monkeypatch.setenv("KGEN_LIBRARY", str(folder))
    return path
