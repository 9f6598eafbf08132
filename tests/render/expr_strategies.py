"""Random typed expressions over a few names, for the tests of printers and rewrites."""

from hypothesis import strategies as st

from kgen.syntax.ast import Binary, Bool, Call, Compare, Expr, Float, If, In, Int, Name, Unary

BOUNDS = {"t": (0, 15), "d": (0, 127), "n": (1, 9)}
"""Of the names that have some; `a` and `b` are ints of any sign, `x` and `y` floats."""
FLOATS = frozenset({"x", "y"})

COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
DIVISORS = st.sampled_from([1, 2, 3, 4, 8, 16, 128, -1, -3, -8]).map(Int)


def environments() -> st.SearchStrategy[dict[str, int | float]]:
    """A value for every name, within its bounds."""
    signed = st.integers(-300, 300) | st.integers(-(2**31), 2**31)
    ints = {name: st.integers(low, high) for name, (low, high) in BOUNDS.items()}
    floats = st.sampled_from([0.0, -0.5, 0.3, 1.0, 7.25, -123.456, 1e-9, 1e12])
    return st.fixed_dictionaries({"a": signed, "b": signed, **ints, "x": floats, "y": floats})


def int_exprs(depth: int = 4) -> st.SearchStrategy[Expr]:
    leaves = st.integers(-20, 300).map(Int) | st.sampled_from("abtdn").map(Name)
    if depth == 0:
        return leaves
    part = st.deferred(lambda: int_exprs(depth - 1))
    unit = st.sampled_from([1, 2, 7, 16]).map(Int)
    return st.one_of(
        leaves,
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), part, part),
        st.builds(Binary, st.sampled_from(["//", "%"]), part, DIVISORS),
        st.builds(Binary, st.sampled_from(["//", "%"]), part, part),
        st.builds(Unary, st.just("neg"), part),
        st.builds(If, bool_exprs(depth - 1), part, part),
        st.builds(lambda f, u, v: Call(f, (u, v)), st.sampled_from(["min", "max"]), part, part),
        st.builds(lambda a, b, c: Call("max", (a, b, c)), part, part, part),
        st.builds(lambda value: Call("abs", (value,)), part),
        st.builds(lambda f, u, v: Call(f, (u, v)), st.sampled_from(["ceil_div", "align"]), part, unit),
        st.builds(lambda f, value: Call(f, (value,)), st.sampled_from(["floor", "ceil"]), float_exprs(1)),
    )


def bool_exprs(depth: int = 3) -> st.SearchStrategy[Expr]:
    numbers = st.deferred(lambda: int_exprs(max(depth - 1, 0)))
    plain = st.builds(lambda op, u, v: Compare((op,), (u, v)), COMPARISONS, numbers, numbers)
    if depth == 0:
        return plain | st.booleans().map(Bool)
    part = st.deferred(lambda: bool_exprs(depth - 1))
    return st.one_of(
        plain,
        st.builds(
            lambda ops, u, v, w: Compare(ops, (u, v, w)),
            st.tuples(COMPARISONS, COMPARISONS), numbers, numbers, numbers,
        ),
        st.builds(lambda op, u, v: Compare((op,), (u, v)), st.sampled_from(["==", "!="]), part, part),
        st.builds(Binary, st.sampled_from(["and", "or", "implies"]), part, part),
        st.builds(Unary, st.just("not"), part),
        st.builds(In, numbers, st.lists(numbers, min_size=1, max_size=3).map(tuple)),
    )  # fmt: skip


def float_exprs(depth: int = 3) -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([0.5, 2.0, -1.25, 1e-3]).map(Float) | st.sampled_from("xy").map(Name)
    if depth == 0:
        return leaves
    part = st.deferred(lambda: float_exprs(depth - 1))
    number = part | int_exprs(depth - 1)
    functions = st.sampled_from(["tanh", "exp2", "exp", "log2", "log", "sqrt", "abs"])
    return st.one_of(
        leaves,
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), part, number),
        st.builds(Binary, st.just("/"), number, number),
        st.builds(If, bool_exprs(0), part, part),
        st.builds(lambda f, u, v: Call(f, (u, v)), st.sampled_from(["min", "max"]), number, part),
        st.builds(lambda f, value: Call(f, (value,)), functions, part),
        st.builds(lambda value: Call("float", (value,)), int_exprs(depth - 1)),
        st.builds(Unary, st.just("neg"), part),
    )


def magnitude(expr: Expr, names: dict[str, int | float]) -> float:
    """A limit that no partial sum or product of an int expression exceeds, however it is ordered."""
    parts = [magnitude(part, names) for part in expr.children()]
    match expr:
        case Int() | Float():
            return abs(expr.value)
        case Name():
            return abs(names[expr.name])
        case Binary(op="*"):
            return max(parts[0], 1) * max(parts[1], 1)
        case Call(function="align"):
            return sum(parts)
        case Call(function="exp2" | "exp" | "floor" | "ceil"):
            return 0
    return sum(parts) + 1
