"""Masks for the tests of regions: the shared ones with their arguments, random ones, and brute force."""

from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st

from kgen.paths import specs_dir
from kgen.spec.load import load_masks
from kgen.spec.model import Require, VariantSpec
from kgen.spec.types import FLOAT, INT, Type
from kgen.syntax.ast import NOWHERE, Binary, Call, Compare, Expr, Float, If, In, Index, Int, Name, Unary
from kgen.testing.masks import over

QUERIES = range(-6, 40)
"""Positions that tests look at; a query may stand before the first key."""
KEYS = 40

BATCH = 1
ARRAY = Type("array", None, INT, "batch")


@cache
def shared() -> dict[str, VariantSpec]:
    return dict(load_masks(specs_dir() / "masks.yaml"))


def arguments(name: str, rng: np.random.Generator) -> dict[str, object]:
    """Values for the arguments of a shared mask, among them ones that make it empty or whole."""
    small = lambda low, high: int(rng.integers(low, high))  # noqa: E731
    values = {
        "window": small(-1, 24),
        "left": small(-2, 20),
        "right": small(-2, 20),
        "sinks": small(-1, 12),
        "chunk": small(1, 16),
        "prefix": [0, small(-2, 40)],
        "query_document": np.sort(rng.integers(0, 4, len(QUERIES))),
        "key_document": np.sort(rng.integers(0, 4, (2, KEYS))),
    }
    return {arg: values[arg] for arg in shared()[name].args if arg in values}


def visible(variant: VariantSpec, args: dict[str, object]) -> np.ndarray:
    """Which query of QUERIES sees which key, by the meaning of the mask alone."""
    q = torch.tensor(QUERIES).view(-1, 1)
    kv = torch.arange(KEYS).view(1, -1)
    if variant.mask is None:
        return np.ones((len(QUERIES), KEYS), bool)
    row = torch.arange(len(QUERIES)).view(-1, 1)
    names = {**args, "q": q, "kv": kv, "batch": BATCH, "head": torch.tensor(0), "q row": row}
    return torch.as_tensor(over(variant.mask, names)).expand(len(QUERIES), KEYS).numpy()


Tile = tuple[int, int, int, int, int]
"""q.lo, q.hi, kv.begin, kv.end, tile"""


def random_tile(rng: np.random.Generator) -> Tile:
    low = int(rng.integers(QUERIES[0], QUERIES[-1]))
    high = int(rng.integers(low, min(low + 9, QUERIES[-1]) + 1))
    begin = int(rng.integers(0, 3)) * int(rng.integers(0, 12))
    return low, high, begin, int(rng.integers(begin, 41)), int(rng.integers(1, 9))


# ---- random masks -------------------------------------------------------------------------------------

ARGS = {"a": INT, "b": INT, "step": INT, "prefix": ARRAY, "x": FLOAT}
GUARD = Require(Compare((">",), (Name("step"), Int(0))), "step is above 0", NOWHERE)


def random_arguments() -> st.SearchStrategy[dict[str, object]]:
    small = st.integers(-6, 24)
    return st.fixed_dictionaries(
        {
            "a": small,
            "b": small,
            "step": st.integers(1, 9),
            "prefix": st.tuples(small, small).map(list),
            "x": st.floats(-4, 20),
        }
    )


def numbers(depth: int) -> st.SearchStrategy[Expr]:
    leaves = st.one_of(
        st.sampled_from(["q", "kv", "kv", "a", "b"]).map(Name),
        st.integers(-4, 12).map(Int),
        st.just(Index(Name("prefix"), Name("batch"))),
    )
    if depth == 0:
        return leaves
    part = numbers(depth - 1)
    divisor = st.integers(1, 7).map(Int) | st.just(Name("step"))
    return st.one_of(
        leaves,
        st.builds(Binary, st.sampled_from(["+", "-"]), part, part),
        st.builds(Binary, st.just("*"), part, st.integers(-3, 3).map(Int)),
        st.builds(Binary, st.sampled_from(["//", "%"]), part, divisor),
        st.builds(lambda f, u, v: Call(f, (u, v)), st.sampled_from(["min", "max"]), part, part),
        st.builds(lambda f, u, v: Call(f, (u, v)), st.sampled_from(["ceil_div", "align"]), part, divisor),
        st.builds(lambda value: Call("abs", (value,)), part),
        st.builds(Unary, st.just("neg"), part),
    )


def conditions(depth: int = 2) -> st.SearchStrategy[Expr]:
    number = numbers(2)
    operator = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    plain = st.builds(lambda op, u, v: Compare((op,), (u, v)), operator, number, number)
    causal = st.just(Compare(("<=",), (Name("kv"), Name("q"))))
    real = st.builds(
        lambda u, v: Compare(("<",), (Binary("*", u, Float(v)), Name("x"))), number, st.floats(-2, 2)
    )
    if depth == 0:
        return plain | causal
    part = conditions(depth - 1)
    return st.one_of(
        plain,
        causal,
        real,
        st.builds(lambda u, v, w: Compare(("<=", "<"), (u, v, w)), number, number, number),
        st.builds(Binary, st.sampled_from(["and", "or", "implies"]), part, part),
        st.builds(Unary, st.just("not"), part),
        st.builds(If, part, part, part),
        st.builds(In, number, st.lists(number, min_size=1, max_size=2).map(tuple)),
    )


def random_masks() -> st.SearchStrategy[VariantSpec]:
    return conditions().map(lambda mask: VariantSpec("random", NOWHERE, mask, None, ARGS, (GUARD,)))
