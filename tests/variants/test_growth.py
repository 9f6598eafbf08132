"""The work for definitions that name each other follows what is written, however often they do.

Work is counted in calls of Python functions, from the text of a spec to its variant, its launch, its
policy and a selection. Twice as many definitions are about twice the work.
"""

import sys
from collections import Counter

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch.model import Bound
from kgen.dispatch.ranges import follow_decisions
from kgen.dispatch.select import select
from kgen.manifest import to_json
from kgen.render.launch import kernels_of, launch_of
from kgen.spec import feasible
from kgen.variants.matrix import make_variant
from kgen.variants.policy import compile_policy

SPEC = """\
op: x
doc: d
templates: {{gpu: gpu/paged_attention.hip.j2}}
params:
  arch: {{type: target, tag: "{{}}"}}
  head_dim: {{type: int, values: [8, 16, 64], tag: "d{{}}"}}
  part: {{type: int, values: [0, 1, 2], default: 0, tag: "p{{}}"}}
let:
  v0: head_dim
  {lets}
require:
  {requires}
arguments:
  out: {{dtype: f32, axes: {{row: num_rows, dim: {size}}}, access: write}}
  scratch: {{dtype: f32, axes: {{row: num_rows}}, workspace: v0 > 3}}
  n: {{scalar: int}}
facts:
  f0: n
  {facts}
guards:
  {guards}
select:
  part:
    pick: exact
    default: {policy}
    policies:
      p0: n
      {policies}
grid:
  gpu: {{x: f0 + {size}, y: 1, z: 1, block: 64}}
"""
TWICE = 2.3
"""What twice the text may cost, in place of once: sorting is a little more than twice."""


def text(lets=(), requires=(), facts=(), guards=(), policies=(), size="head_dim"):
    return SPEC.format(
        lets="\n  ".join(lets),
        requires="\n  ".join(f"- {{check: {check}, because: b}}" for check in (*requires, "v0 > 0")),
        facts="\n  ".join(facts),
        guards="\n  ".join(f"- {{check: {check}, because: b}}" for check in (*guards, "n > 0")),
        policies="\n      ".join(policies),
        policy=f"p{len(policies)}",
        size=size,
    )


def doubled(letter, count, former="max({0}, {0})"):
    return [f"{letter}{i}: {former.format(f'{letter}{i - 1}')}" for i in range(1, count)]


def of_three(letter, count):
    named = [
        f"{letter}{max(0, i - 1)} - {letter}{max(0, i - 2)} + {letter}{max(0, i - 3)}" for i in range(count)
    ]
    return [f"{letter}{i}: {named[i]}" for i in range(1, count)]


SHAPES = {
    "a derived value that names the one before twice": lambda n: text(
        doubled("v", n), [f"v{n - 1} > 0"], guards=[f"v{n - 1} > 0"], size=f"v{n - 1}"
    ),
    "each written before what it names": lambda n: text(
        doubled("v", n)[::-1], [f"v{n - 1} > 0"], size=f"v{n - 1}"
    ),
    "one that names the three before": lambda n: text(of_three("v", n), [f"v{n - 1} > 0"], size=f"v{n - 1}"),
    "many rules that name the last": lambda n: text(
        doubled("v", n), [f"v{n - 1} > {-i}" for i in range(n)], guards=[f"v{n - 1} > {-i}" for i in range(n)]
    ),
    "facts": lambda n: text(facts=doubled("f", n)),
    "policies": lambda n: text(policies=doubled("p", n)),
    "all of them": lambda n: text(
        doubled("v", n), [f"v{n - 1} > 0"], doubled("f", n), [f"v{n - 1} > 0"], doubled("p", n), f"v{n - 1}"
    ),
}


def whole_way(with_op, spec):
    """From a spec's text to what a kernel is launched with."""
    catalog = with_op(spec)
    op = catalog.ops["x"]
    variant = make_variant(op, {"arch": "gfx942", "head_dim": 16}, catalog)
    policy = compile_policy(op, catalog.targets)
    names = {"arch": "gfx942", "head_dim": 16, "num_rows": 5, "n": 2}
    bound = Bound(names, {}, {}, {"n": 2}, frozenset(), "cpu")
    selection = select(policy, bound, (), jit=True)
    follow_decisions(policy, bound, selection, {})
    return (
        kernels_of(variant)[0].x,
        launch_of(variant).grid[0],
        selection.params["part"],
        len(to_json(policy)),
    )


def work(run, *args):
    """Calls of Python functions, and what the run gave."""
    calls = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: calls.update([event]))
    try:
        result = run(*args)
    finally:
        sys.setprofile(before)
    return calls["call"], result


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_twice_the_text_is_twice_the_work(with_op, shape):
    work(whole_way, with_op, shape(20))
    once, (cpp, code, part, size) = work(whole_way, with_op, shape(60))
    twice, (more_cpp, more_code, more_part, more_size) = work(whole_way, with_op, shape(120))
    assert once < twice < TWICE * once
    assert more_size < TWICE * size
    assert (cpp, part) == (more_cpp, more_part) == ("a.f0 + 16", 2)
    assert code == more_code == ["+", ["name", "f0"], ["int", 16]]


CIRCLES = {
    "one of all": lambda n: [f"v{i}: v{i % n + 1} + v{i % n + 1}" for i in range(1, n + 1)],
    "many of two": lambda n: [f"v{i}: v{i + 1 if i % 2 else i - 1} + 1" for i in range(1, n + 1 + n % 2)],
    "a way into one": lambda n: [f"v{i}: v{min(i + 1, n)} + v{min(i + 1, n)}" for i in range(1, n + 1)],
}


def refused(with_op, spec):
    with pytest.raises(KgenError) as caught:
        with_op(spec)
    return [d.code for d in caught.value.diagnostics]


@pytest.mark.parametrize(("name", "reports"), [("one of all", 1), ("many of two", 30), ("a way into one", 1)])
def test_circles_are_told_with_as_little_work(with_op, name, reports):
    lets = CIRCLES[name]
    work(refused, with_op, text(lets(20)))
    once, codes = work(refused, with_op, text(lets(60), ["v9 > 0"]))
    twice, _ = work(refused, with_op, text(lets(120), ["v9 > 0"]))
    assert codes == ["K212"] * reports
    assert once < twice < TWICE * once


def test_a_value_that_outgrows_64_bits_is_a_fault_of_the_rules_that_need_it(with_op):
    spec = text(doubled("v", 90, "{0} + {0}"), ["v40 > 0", "v89 > 0"])
    with pytest.raises(KgenError) as caught:
        with_op(spec)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.message) == (
        "K213",
        "this rule can never hold: it rejects every value of 'head_dim'",
    )
    assert spec.splitlines()[fault.span.line - 1].strip() == "- {check: v89 > 0, because: b}"


def test_so_many_derived_values_that_no_stack_would_hold_them(with_op):
    catalog = with_op(text(doubled("v", 3000), ["v2992 > 9"], size="v2999"))
    op = catalog.ops["x"]
    variant = make_variant(op, {"arch": "gfx942", "head_dim": 64}, catalog)
    assert (variant.lets["v2999"], kernels_of(variant)[0].x) == (64, "a.f0 + 64")
    small = make_variant(op, {"arch": "gfx942", "head_dim": 8}, catalog)
    assert small.rule == "v2992 > 9" and small.figures == {"v2992": 8}


def test_rules_are_tried_until_so_many_terms_are_computed(with_op, monkeypatch):
    """Rules of head_dim first, then those of part; what is left over counts as one that can hold."""
    spec = text(requires=["head_dim > 99", "part > 99"])
    monkeypatch.setattr(feasible, "MAX_TERMS", 60)
    assert refused(with_op, spec) == ["K213"] * 2
    monkeypatch.setattr(feasible, "MAX_TERMS", 20)
    assert refused(with_op, spec) == ["K213"]
    monkeypatch.setattr(feasible, "MAX_TERMS", 5)
    assert [rule.because for rule in with_op(spec).ops["x"].requires] == ["b"] * 3
