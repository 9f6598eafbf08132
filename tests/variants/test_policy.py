"""What crosses to dispatch: the argument block and the policy, in terms of parameters and facts."""

import json

import pytest

from kgen.dispatch.codes import Defined, definitions, names_in
from kgen.manifest import HEADER, Policy, to_json
from kgen.manifest_read import from_json
from kgen.semantics import evaluate
from kgen.spec.model import VariantSpec
from kgen.syntax.ast import NOWHERE
from kgen.variants.policy import argument_words, compile_policy


def test_the_argument_block_of_attention(catalog):
    words = argument_words(catalog.ops["paged_attention"])
    cache = ["block", "head", "token", "dim"]
    assert [w.name for w in words] == [
        *HEADER,
        *("out", "out_stride_seq", "out_stride_head"),
        *("lse", "lse_stride_seq"),
        *("q", "q_stride_seq", "q_stride_head"),
        "k_cache",
        *(f"k_cache_stride_{axis}" for axis in cache),
        "v_cache",
        *(f"v_cache_stride_{axis}" for axis in cache),
        *("block_table", "block_table_stride_seq"),
        "seq_lens",
        *("k_scale", "k_scale_stride_head", "v_scale", "v_scale_stride_head"),
        *("softmax_scale", "max_seq_len"),
        *("exp_sums", "exp_sums_stride_seq", "exp_sums_stride_head"),
        *("max_logits", "max_logits_stride_seq", "max_logits_stride_head"),
        *("tmp_out", "tmp_out_stride_seq", "tmp_out_stride_head", "tmp_out_stride_part"),
        *("piece_states", "piece_states_stride_piece", "piece_states_stride_row"),
        *("piece_out", "piece_out_stride_piece", "piece_out_stride_row"),
        *("arrivals", "arrivals_stride_worker"),
        *("num_seqs", "num_heads", "num_blocks", "num_kv_heads", "max_pages"),
        *(fact.name for fact in catalog.ops["paged_attention"].facts),
    ]


def test_kinds_of_words(catalog):
    words = {w.name: w for w in argument_words(catalog.ops["paged_attention"])}
    assert (words["q"].kind, words["q"].argument) == ("pointer", "q")
    stride = words["k_cache_stride_token"]
    assert (stride.kind, stride.argument, stride.axis) == ("stride", "k_cache", "token")
    assert words["softmax_scale"].kind == "float"
    assert words["max_seq_len"].kind == "int"
    assert words["num_seqs"].kind == words["group"].kind == "fact"


@pytest.mark.parametrize(
    ("op", "facts"),
    [
        ("copy_blocks", ["num_blocks", "page_bytes", "num_pairs"]),
        ("swap_blocks", ["num_source_blocks", "page_bytes", "num_blocks", "num_pairs"]),
        ("merge_states", ["num_rows", "num_heads", "num_states"]),
        ("reshape_and_cache", ["num_tokens", "num_kv_heads", "num_blocks"]),
    ],
)
def test_facts_come_in_order_of_appearance(catalog, op, facts):
    derived = [fact.name for fact in catalog.ops[op].facts]
    assert [w.name for w in argument_words(catalog.ops[op]) if w.kind == "fact"] == facts + derived


def test_every_policy_survives_json(catalog):
    for op in catalog.ops.values():
        policy = compile_policy(op)
        text = to_json(policy)
        back = from_json(Policy, text, "policy.json")
        assert to_json(back) == text
        assert json.loads(text)["spec_hash"] == op.spec_hash


def value(policy, code, names):
    """The value of an expression of a policy, which may name derived values and policies."""
    return evaluate(code, Defined(names, definitions(policy)))


@pytest.mark.parametrize("op", ["paged_attention", "extend_attention", "reshape_and_cache"])
def test_derived_values_cross_once_each_in_order_and_only_where_they_are_named(catalog, op):
    spec = catalog.ops[op]
    policy = compile_policy(spec)
    made = [name for name, _ in policy.lets]
    assert made == [let.name for let in spec.lets if let.name in made]
    codes = [code for _, code in policy.facts] + [a.when for a in policy.arguments if a.when]
    codes += [axis.size for a in policy.arguments for axis in a.axes]
    codes += [g.check for g in policy.guards] + [c for s in policy.select for c in s.policies.values()]
    named = {name for code in codes for name in names_in(code)}
    within = {name for _, code in policy.lets for name in names_in(code)}
    lets = {let.name for let in spec.lets}
    assert made and set(made) == (named | within) & lets
    for at, (_, code) in enumerate(policy.lets):
        assert names_in(code) & lets <= set(made[:at])


def test_workspaces_say_when_they_are_needed(catalog):
    policy = compile_policy(catalog.ops["paged_attention"])
    arguments = {a.name: a for a in policy.arguments}
    assert arguments["tmp_out"].workspace and not arguments["out"].workspace
    assert value(policy, arguments["tmp_out"].when, {"partition_size": 512}) is True
    assert value(policy, arguments["tmp_out"].when, {"partition_size": 0}) is False


def test_axes_say_which_must_be_contiguous(catalog):
    policy = compile_policy(catalog.ops["paged_attention"])
    arguments = {a.name: a for a in policy.arguments}
    assert [(a.name, a.unit) for a in arguments["q"].axes] == [("seq", False), ("head", False), ("dim", True)]
    assert [(a.name, a.size) for a in arguments["k_cache"].axes] == [
        ("block", ["name", "num_blocks"]),
        ("head", ["name", "num_kv_heads"]),
        ("token", ["name", "block_size"]),
        ("dim", ["name", "head_dim"]),
    ]
    assert arguments["k_cache"].cache == "k" and arguments["lse"].optional


def test_a_scale_crosses_with_its_condition_and_its_stride(catalog):
    policy = compile_policy(catalog.ops["reshape_and_cache"])
    rule = {a.name: a for a in policy.arguments}["k_scale"]
    assert rule.broadcast and not rule.optional and not rule.workspace
    assert [(a.name, a.size, a.unit) for a in rule.axes] == [("head", ["name", "num_kv_heads"], False)]
    wanted = {d: value(policy, rule.when, {"kv_dtype": d}) for d in ("bf16", "fp8_e4m3", "fp8_e5m2")}
    assert wanted == {"bf16": False, "fp8_e4m3": True, "fp8_e5m2": True}
    assert "multiples of a scale" in rule.because


@pytest.mark.parametrize(
    ("group", "seqs", "length", "want"),
    [
        (8, 1, 4096, 512),
        (15, 1, 4096, 512),
        (16, 1, 4096, 256),
        (8, 1, 512, 0),
        (8, 64, 4096, 0),
        (8, 64, 8193, 512),
    ],
)
def test_partition_policy(catalog, group, seqs, length, want):
    policy = compile_policy(catalog.ops["paged_attention"])
    rule = next(r for r in policy.select if r.param == "partition_size")
    facts = {"group": group, "num_seqs": seqs, "num_heads": 2 * group, "max_seq_len": length}
    assert value(policy, rule.policies["vllm"], facts) == want
    assert value(policy, rule.want, {**facts, "target.compute_units": 0}) == want
    assert (rule.default, rule.env, rule.pick) == ("auto", "PA_PARTITION_SIZE", "exact")


@pytest.mark.parametrize(
    ("units", "seqs", "heads", "length", "want"),
    [
        (132, 1, 8, 131_072, 2048),  # 512 blocks
        (132, 1, 8, 8192, 256),  # 256: no smaller parts
        (132, 16, 8, 8192, 2048),
        (132, 33, 8, 8192, 0),  # 264 rows fill 132 units twice
        (132, 32, 8, 4096, 2048),
        (132, 1, 8, 256, 0),
        (304, 1, 8, 131_072, 1024),
        (304, 2, 1, 4_000_000, 8192),  # no larger ones
        (0, 1, 8, 131_072, 0),  # a CPU
    ],
)
def test_the_balanced_policy_fills_the_compute_units(catalog, units, seqs, heads, length, want):
    policy = compile_policy(catalog.ops["paged_attention"])
    rule = next(r for r in policy.select if r.param == "partition_size")
    facts = {"num_seqs": seqs, "num_kv_heads": heads, "passes": 1, "max_seq_len": length}
    facts["target.compute_units"] = units
    assert value(policy, rule.policies["balanced"], facts) == want


def test_short_rows_that_no_two_teams_serve_stay_whole(catalog):
    policy = compile_policy(catalog.ops["paged_attention"])
    rule = next(r for r in policy.select if r.param == "partition_size")
    facts = {"num_seqs": 33, "num_heads": 128, "num_kv_heads": 1, "max_seq_len": 1024}
    facts |= {"group": 128, "reuse_kv_times": 16, "passes": 8}
    facts |= {"target.compute_units": 132, "target.group_products": True}
    assert value(policy, rule.want, facts) == 0


@pytest.mark.parametrize(
    ("units", "seqs", "heads", "length", "group", "want"),
    [
        (132, 1, 8, 512, 4, 0),  # short
        (132, 25, 8, 1024, 4, 0),  # 200 rows fill 132 units one and a half times
        (132, 24, 8, 1024, 4, -1),
        (132, 64, 8, 4096, 4, -1),
        (132, 1, 8, 33_792, 4, 512),  # alone, and up to 528 parts
        (132, 1, 8, 33_793, 4, -1),
        (132, 1, 1, 131_072, 128, 1024),  # by teams, and up to 132 parts
        (132, 1, 1, 135_169, 128, -1),
        (132, 16, 1, 8192, 128, 1024),  # of several sequences, where they fill the chip about once
        (132, 16, 1, 8192, 48, -1),
        (132, 17, 1, 8192, 128, -1),
        (132, 11, 1, 6144, 64, 1024),
        (132, 10, 1, 6144, 64, -1),
        (132, 131, 1, 1025, 128, -1),  # parts of one token are parts
        (132, 256, 1, 1024, 128, -1),  # whole rows fill the chip twice
        (132, 255, 1, 1024, 128, 0),  # not quite
        (132, 512, 1, 200, 128, -1),
        (132, 396, 1, 512, 128, -1),
        (132, 300, 1, 1024, 128, 0),
        (132, 132, 1, 512, 128, 0),  # once
        (132, 256, 1, 1024, 64, 0),  # one team
        (80, 160, 1, 512, 128, 0),  # no teams
        (132, 2, 8, 2048, 4, -1),
        (80, 256, 32, 131_072, 4, -1),
        (0, 64, 8, 4096, 4, 0),  # a CPU
    ],
)
def test_calls_that_name_no_policy_get_even_shares_but_for_short_rows_and_one_alone(
    catalog, units, seqs, heads, length, group, want
):
    policy = compile_policy(catalog.ops["paged_attention"])
    rule = next(r for r in policy.select if r.param == "partition_size")
    facts = {"num_seqs": seqs, "num_heads": 4 * heads, "num_kv_heads": heads, "passes": 1, "group": group}
    facts |= {"max_seq_len": length, "target.compute_units": units, "target.group_products": units == 132}
    facts |= {"reuse_kv_times": group}
    assert value(policy, rule.want, facts) == want


def test_figures_of_targets_cross_where_a_rule_asks_for_them(catalog):
    policy = compile_policy(catalog.ops["paged_attention"], catalog.targets)
    assert from_json(Policy, to_json(policy), "policy.json").targets == policy.targets
    figures = {"target.wave": 32, "target.fp8": "ocp", "target.group_products": True}
    assert policy.targets["sm_90"] == {"target.compute_units": 132, **figures}
    figures = {"target.wave": 1, "target.fp8": "ocp", "target.group_products": False}
    assert policy.targets["cpu_generic"] == {"target.compute_units": 0, **figures}
    assert policy.targets["gfx942"]["target.fp8"] == "fnuz"
    writes = compile_policy(catalog.ops["reshape_and_cache"], catalog.targets)
    assert writes.targets["gfx936"] == {"target.fp8": "ocp"}
    assert compile_policy(catalog.ops["copy_blocks"], catalog.targets).targets == {}


def test_parameters_keep_their_values_and_places(catalog):
    policy = compile_policy(catalog.ops["paged_attention"])
    params = {p.name: p for p in policy.params}
    assert params["block_size"].values == (1, 16, 32, 64, 128, 256)
    assert {"none", "causal", "sliding"} <= set(params["variant"].values)
    assert params["kv_dtype"].default == ["name", "dtype"]
    assert params["head_dim"].where.startswith("specs/ops/paged_attention.yaml:")
    assert policy.layouts["bhsd_vt"]["v"]["axes"] == ("block", "head", "dim", "token")


def test_variants_cross_with_their_arguments_and_sizes(catalog):
    policy = compile_policy(catalog.ops["paged_attention"])
    again = from_json(Policy, to_json(policy), "policy.json")
    rules = {rule.name: rule for rule in again.variants}
    assert [str(arg) for arg in rules["sinks"].args] == ["window: int", "sinks: int"]
    assert [str(arg) for arg in rules["document"].args] == ["query_document: int[q]", "key_document: int[kv]"]
    assert (rules["none"].mask, rules["alibi"].mask) == (None, ["<=", ["name", "kv"], ["name", "q"]])
    assert rules["chunked"].guards[0].check == [">", ["name", "chunk"], ["int", 0]]
    assert again.positions["head"] == ["name", "num_heads"]


def test_masks_of_a_build_stay_with_its_kernels(catalog):
    own = VariantSpec("own", NOWHERE, None, of_build=True)
    op = catalog.with_masks({"own": own}).ops["paged_attention"]
    assert "own" in op.variants and all(rule.name != "own" for rule in compile_policy(op).variants)
