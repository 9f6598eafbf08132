"""Definitions that name each other: their order, and values that are computed once each."""

import pytest

from kgen.definitions import Derived, needed
from kgen.diagnostics import Diagnostic, KgenError


class Sums(Derived):
    """Every definition is the sum of the names it lists; `worst` has no value."""

    def __init__(self, known, definitions):
        super().__init__(known, definitions)
        self.definitions, self.computed = definitions, []

    def _needs(self, name):
        return self.definitions[name]

    def _compute(self, name):
        self.computed.append(name)
        if name == "worst":
            raise KgenError(Diagnostic("K209", "division by zero"))
        return sum(self[other] for other in self.definitions[name])


@pytest.mark.parametrize(
    ("names", "needs", "order"),
    [
        (["c"], {"a": "", "b": "a", "c": "ba"}, "abc"),
        (["c", "a"], {"a": "x", "b": "xa", "c": "b"}, "xabc"),
        (["a"], {"a": "b", "b": "c", "c": "a"}, "cba"),
        (["a", "a"], {"a": "a"}, "a"),
        ([], {"a": ""}, ""),
    ],
)
def test_what_names_need_comes_before_them_once(names, needs, order):
    assert "".join(needed(names, lambda name: needs.get(name, ""))) == order


def test_a_value_is_computed_when_it_is_asked_for_and_once():
    names = Sums({"x": 1, "y": 10}, {"a": "xy", "b": "aa", "c": "ba", "d": "c"})
    assert names.computed == []
    assert (names["c"], names["b"], names["c"]) == (33, 22, 33)
    assert names.computed == ["a", "b", "c"]
    assert (set(names), len(names)) == ({*"xyabcd"}, 6)
    assert "d" in names and "e" not in names
    assert dict(names) == {"x": 1, "y": 10, "a": 11, "b": 22, "c": 33, "d": 33}
    with pytest.raises(KeyError):
        names["e"]


def test_a_long_way_is_followed_like_a_short_one():
    count = 20_000
    names = Sums({"v0": 1}, {f"v{i}": (f"v{i - 1}", f"v{i - 1}", "v0") for i in range(1, count)})
    names._compute = lambda name: names.computed.append(name) or names[names.definitions[name][0]] % 7 + 1
    assert names[f"v{count - 1}"] == (count - 1) % 7 + 1
    assert len(names.computed) == count - 1


def test_what_has_no_value_is_a_fault_each_time_it_is_asked_for_and_computed_once():
    names = Sums({"x": 1}, {"worst": "", "a": ["worst", "x"], "b": "x"})
    for name in ("a", "worst", "a"):
        with pytest.raises(KgenError, match="K209"):
            names[name]
    assert names["b"] == 1
    assert names.computed == ["worst", "a", "b"]


def test_what_is_made_of_itself_is_a_fault():
    names = Sums({"x": 1}, {"a": "b", "b": "cx", "c": "a", "d": "x"})
    with pytest.raises(KgenError, match=r"K212.*is made of itself"):
        names["a"]
    assert names["d"] == 1
