"""How free parameters get their values: precedence, picks, and what building off changes."""

from dataclasses import replace

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch.model import Bound, Built
from kgen.dispatch.select import complete, nearest_value, on_target, select
from kgen.manifest import Entry, Guard
from kgen.tuning import TunedClass
from tests.dispatch.toy import BASE, POLICY, toy_dispatcher, variant_name, write_library

FACTS = {"num_rows": 3, "num_heads": 8, "num_kv_heads": 2, "num_blocks": 5, "num_words": 38}
SCALARS = {"limit": 50, "fail": 0}


def kernel(**params):
    params = {**BASE, **params}
    entry = Entry(variant_name(params), "toy", "k", params, "toy", "cpu", "a", "s", "")
    return Built(entry, None, "toys")


def bound(requested=(), policy=None, **facts):
    fixed = {name: BASE[name] for name in ("arch", "dtype", "kv_dtype", "head_dim", "block_size", "layout")}
    return Bound({**fixed, **FACTS, **SCALARS, **facts}, dict(requested), {}, {}, frozenset(), "cpu", policy)


def chosen(call, *kernels, jit=False, tuning=()):
    return select(POLICY, call, kernels, jit=jit, tuning=tuning)


def values(selection):
    return selection.params["reuse"], selection.params["partition_size"]


@pytest.mark.parametrize(
    ("group", "built", "jit", "value", "passes"),
    [
        (1, (1, 4, 8), False, 1, 1),
        (3, (1, 4, 8), False, 4, 1),
        (4, (1, 4, 8), False, 4, 1),
        (5, (1, 4, 8), False, 8, 1),
        (71, (1, 4, 8), False, 8, 9),  # a group above the largest built takes passes
        (71, (1, 4, 8), True, 16, 5),  # what may be built is: the largest legal value
        (8, (1, 4), True, 8, 1),
        (3, (), True, 4, 1),
        (71, (), True, 16, 5),
    ],
)
def test_at_least(group, built, jit, value, passes):
    kernels = [kernel(reuse=reuse) for reuse in built]
    selection = chosen(bound(num_heads=2 * group), *kernels, jit=jit)
    assert selection.params["reuse"] == value
    assert selection.names["passes"] == passes
    assert (selection.kernel is not None) == (value in built)


def test_a_target_brings_its_figures_and_the_simulator_those_of_its_target():
    policy = replace(POLICY, targets={"gfx942": {"target.compute_units": 304}})
    figures = {"target.compute_units": 304}
    assert on_target(policy, {"head_dim": 8}, "gfx942") == {"head_dim": 8, "arch": "gfx942", **figures}
    assert on_target(policy, {}, "sim:gfx942") == {"arch": "sim:gfx942", **figures}
    assert on_target(policy, {"arch": "toy"}, "other") == {"arch": "other"}


def test_policy_by_rule_and_by_name():
    kernels = [kernel(), kernel(partition_size=512)]
    assert values(chosen(bound(limit=100), *kernels)) == (4, 0)
    assert values(chosen(bound(limit=101), *kernels)) == (4, 512)
    assert values(chosen(bound(policy="always", limit=5), *kernels)) == (4, 512)
    assert values(chosen(bound(policy="never", limit=5000), *kernels)) == (4, 0)
    with pytest.raises(KgenError, match="no policy is named 'allways'"):
        chosen(bound(policy="allways"), *kernels)


def test_precedence(monkeypatch):
    kernels = [kernel(partition_size=size) for size in (0, 128, 256, 512)]
    tuning = [TunedClass({}, {"limit": (4000, 6000)}, {"partition_size": 128}, where="table:7:3")]
    assert values(chosen(bound(limit=5000), *kernels)) == (4, 512)
    selection = chosen(bound(limit=5000), *kernels, tuning=tuning)
    choice = selection.choices[1]
    assert (choice.value, choice.source, choice.where) == (128, "tuning table", "table:7:3")
    assert selection.tuned is tuning[0]
    assert values(chosen(bound(limit=3999), *kernels, tuning=tuning)) == (4, 512)
    assert values(chosen(bound(limit=5000, policy="never"), *kernels, tuning=tuning)) == (4, 0)
    monkeypatch.setenv("PA_PARTITION_SIZE", "256")
    selection = chosen(bound(limit=5000), *kernels, tuning=tuning)
    assert (selection.choices[1].value, selection.choices[1].source) == (256, "PA_PARTITION_SIZE")
    explicit = bound(limit=5000, requested={"partition_size": 0})
    selection = chosen(explicit, *kernels, tuning=tuning)
    assert (selection.choices[1].value, selection.choices[1].source) == (0, "argument")


@pytest.mark.parametrize("text", ["", "0"])
def test_an_environment_variable_that_is_unset_or_0_leaves_the_policy(monkeypatch, text):
    monkeypatch.setenv("PA_PARTITION_SIZE", text)
    assert values(chosen(bound(limit=5000), kernel(partition_size=512))) == (4, 512)


def test_a_wish_that_is_not_built():
    kernels = [kernel(), kernel(partition_size=256)]
    selection = chosen(bound(limit=5000), *kernels)
    assert values(selection) == (4, 256)
    assert selection.choices[1].why == "512 is not built and building is off; 256 is the nearest built"
    selection = chosen(bound(limit=5000), *kernels, jit=True)
    assert values(selection) == (4, 512)
    assert selection.kernel is None


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_what_is_insisted_on_is_met_or_missing(monkeypatch, source):
    requested = {"partition_size": 384} if source == "argument" else {}
    if source == "environment":
        monkeypatch.setenv("PA_PARTITION_SIZE", "384")
    selection = chosen(bound(requested=requested), kernel(), kernel(partition_size=512))
    assert (values(selection), selection.kernel) == ((4, 384), None)


def test_what_is_insisted_on_narrows_what_else_is_chosen():
    kernels = [kernel(reuse=4), kernel(reuse=8, partition_size=512)]
    selection = chosen(bound(requested={"partition_size": 512}), *kernels)
    assert values(selection) == (8, 512)
    assert selection.kernel is kernels[1]


def test_a_trace_says_how_each_value_came_about():
    selection = chosen(bound(limit=5000), kernel(reuse=8), kernel(reuse=16, partition_size=512))
    reuse, partition = selection.choices
    assert (reuse.param, reuse.want, reuse.value, reuse.built) == ("reuse", 4, 8, (8, 16))
    assert (reuse.source, reuse.pick, reuse.where) == ("rule", "at_least", "toy.yaml:50:3")
    assert reuse.why == "smallest built that is large enough"
    assert (partition.param, partition.want, partition.built) == ("partition_size", 512, (0,))
    assert (partition.source, partition.where) == ("policy long", "toy.yaml:51:3")
    assert len(selection.candidates) == 2
    assert selection.names["group"] == 4


def test_guards_are_checked_before_anything_is_chosen():
    with pytest.raises(KgenError, match="num_heads must be a multiple of num_kv_heads"):
        chosen(bound(num_heads=7), kernel())


def test_fixed_parameters_have_defaults_or_must_be_said():
    names = {"dtype": "bf16", "head_dim": 8, "block_size": 16, "layout": "bshd"}
    assert complete(POLICY, names, "toy")["kv_dtype"] == "bf16"
    with pytest.raises(KgenError, match="toy: nothing says what layout is"):
        complete(POLICY, {"dtype": "f32", "head_dim": 8, "block_size": 16}, "toy")


def test_nearest_value():
    assert nearest_value(512, (0, 256, 1024)) == 256
    assert nearest_value(384, (256, 512)) == 256
    assert nearest_value(700, (0, 256, 1024)) == 1024


def selection_for(dispatcher, **facts):
    policy = dispatcher.policy("toy")
    names = {k: v for k, v in bound(**facts).names.items() if k != "arch"}
    return dispatcher.choose(policy, Bound(names, {}, {}, {}, frozenset(), "cpu"))


def test_the_native_arch_is_built_unless_building_is_off(compiler, monkeypatch):
    dispatcher = toy_dispatcher(compiler, {"arch": "portable"})
    other = compiler.make(arch="better", requires=("toy1", "toy2"))
    dispatcher.registry.add([other])
    assert selection_for(dispatcher).params["arch"] == "toy"
    monkeypatch.setenv("KGEN_JIT", "0")
    assert selection_for(dispatcher).params["arch"] == "better"
    monkeypatch.setenv("KGEN_ARCH", "toy")
    assert selection_for(dispatcher).kernel is None


def test_a_kernel_this_machine_cannot_run_is_not_chosen(compiler, monkeypatch):
    monkeypatch.setenv("KGEN_JIT", "0")
    dispatcher = toy_dispatcher(compiler, {})
    assert selection_for(dispatcher).kernel is not None
    compiler.host = frozenset({"toy1"})
    dispatcher = toy_dispatcher(compiler)
    write_library(compiler.folder, [compiler.make(requires=("toy1", "toy2", "toy3"))], monkeypatch)
    assert selection_for(dispatcher).kernel is None
    assert [skip.reason for skip in dispatcher.registry.skipped()] == ["this machine lacks toy2, toy3"]


def with_alternatives(lets=(), **policies):
    """The toy, whose partition size has these alternatives; `main` is the default."""
    rule = replace(POLICY.select[1], policies=policies, default="main", want=policies["main"])
    return replace(POLICY, lets=lets, select=(POLICY.select[0], rule))


LIMIT, LONG = ["name", "limit"], ["name", "partition_size.long"]


def test_an_alternative_may_name_others_and_derived_values():
    policy = with_alternatives(
        (("pages", ["*", ["name", "block_size"], ["int", 4]]), ("none", ["//", ["int", 1], ["int", 0]])),
        long=["if", ["<=", LIMIT, ["int", 100]], ["name", "pages"], ["int", 512]],
        never=["name", "none"],
        main=["if", [">", LIMIT, ["int", 9]], ["call", "max", LONG, LONG], ["name", "partition_size.never"]],
    )
    chosen = [select(policy, bound(limit=limit), (), jit=True).choices[1] for limit in (50, 500)]
    assert [(c.value, c.source) for c in chosen] == [(64, "policy main"), (512, "policy main")]
    named = select(policy, bound(limit=500, policy="long"), (), jit=True)
    assert named.params["partition_size"] == 512 and named.names["pages"] == 64
    with pytest.raises(KgenError, match="division by zero"):
        select(policy, bound(limit=9), (), jit=True)


def test_alternatives_that_name_each_other_in_a_circle_are_a_fault():
    policy = with_alternatives(long=["name", "partition_size.main"], main=LONG)
    with pytest.raises(KgenError, match=r"K212.*is made of itself"):
        select(policy, bound(), (), jit=True)


def test_a_guard_that_names_a_derived_value_is_told_with_what_that_is_made_of():
    guard = Guard(["not", ["name", "tight"]], "it must not be tight", "toy.yaml:43:5")
    policy = replace(
        POLICY,
        lets=(("tight", ["<", ["*", ["name", "head_dim"], ["name", "block_size"]], ["int", 500]]),),
        guards=(guard,),
    )
    with pytest.raises(KgenError) as caught:
        select(policy, bound(), (), jit=True)
    assert caught.value.diagnostics[0].message == "toy: it must not be tight (block_size = 16, head_dim = 8)"
