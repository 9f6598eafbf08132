"""Arguments of masks and scores: checked, placed at the end of the block, and named where they are wrong."""

import struct
from dataclasses import replace

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.dispatch.variants import find_rule, operator_with, ordered, pack, policy_with, unpack
from kgen.manifest import Guard, ParamRule, VariantArg, VariantRule
from tests.dispatch.test_launch import arguments
from tests.dispatch.toy import OPERATOR, POLICY, integer, name, toy_dispatcher, with_entry

PLAIN = VariantRule("plain", ())
FULL = VariantRule(
    "full",
    (
        VariantArg("window", "int"),
        VariantArg("cap", "float"),
        VariantArg("slope", "float", "head"),
        VariantArg("start", "int", "batch"),
        VariantArg("document", "int", "kv"),
    ),
    (Guard([">", name("window"), integer(0)], "window must be above 0", "masks.yaml:3:4"),),
)
OWN = VariantRule("own", (VariantArg("step", "int"),), mask=["bool", True], where="one.yaml:2:3")
VARIED = replace(
    POLICY,
    params=(*POLICY.params, ParamRule("variant", "variant", "{}", ("plain", "full"), ["str", "plain"])),
    variants=(PLAIN, FULL),
    positions={
        "head": name("num_heads"),
        "batch": name("num_rows"),
        "q": name("num_rows"),
        "kv": name("limit"),
    },
)
CHOOSING = replace(OPERATOR, keywords={**OPERATOR.keywords, "variant": "str"})


def given(**changes):
    """Arguments of the variant `full`, for a call of 3 rows, 8 heads and a limit of 100."""
    values = {
        "window": 7,
        "cap": 0.5,
        "slope": torch.arange(8, dtype=torch.float32),
        "start": torch.arange(3, dtype=torch.int32),
        "document": torch.zeros(3, 130, dtype=torch.int32)[:, :128],
    }
    return {**values, **changes}


def call(compiler, rule, variant_args, variant="full", **changes):
    """The words at the end of the block that a kernel of the variant gets."""
    compiler.current = VARIED
    dispatcher = toy_dispatcher(compiler, {"variant": variant})
    operator = operator_with(CHOOSING, rule)
    words = policy_with(VARIED, rule).words
    values = arguments(variant=variant, **changes)
    values["echo"] = torch.zeros(len(words), dtype=torch.int64)
    arrays, singles = ordered("toy", rule, variant_args)
    tensors, scalars = (list(values.values())[a:b] for a, b in ((0, 5), (5, 8)))
    assert dispatcher.caller(operator)(*tensors, *arrays, *scalars, *singles, *list(values.values())[8:])
    tail = words[len(VARIED.words) :]
    return dict(zip([word.name for word in tail], values["echo"].tolist()[-len(tail) :], strict=True))


def test_the_words_of_a_variant_end_the_block(compiler):
    variant_args = given()
    assert call(compiler, FULL, variant_args) == {
        "v_window": 7,
        "v_cap": struct.unpack("<q", struct.pack("<d", 0.5))[0],
        "v_slope": variant_args["slope"].data_ptr(),
        "v_start": variant_args["start"].data_ptr(),
        "v_document": variant_args["document"].data_ptr(),
        "v_document_stride_seq": 130,
    }


def test_a_scalar_steers_no_plan(compiler):
    compiler.current = VARIED
    dispatcher = toy_dispatcher(compiler, {"variant": "full"})
    assert "window" not in dispatcher.signature(operator_with(CHOOSING, FULL)).steering


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"windw": 3}, "takes no argument 'windw'"),
        ({"window": None}, "needs window"),
        ({"window": 0.5}, "window must be an integer, found float"),
        ({"window": True}, "window must be an integer, found bool"),
        ({"window": 2**31}, "must fit 32 bits"),
        ({"window": 0}, "window must be above 0 (window = 0)"),
        ({"cap": "much"}, "cap must be a number"),
        ({"slope": 0.5}, "slope must be a tensor, one value for each head"),
        ({"slope": torch.zeros(8, dtype=torch.float64)}, "slope is float64; it must be f32"),
        ({"slope": torch.zeros(7)}, "slope axis head is 7, but num_heads is 8"),
        ({"slope": torch.zeros(8, 2)}, "it must have the axes [head]"),
        ({"start": torch.zeros(3)}, "start is f32; it must be i32"),
        ({"document": torch.zeros(3, 99, dtype=torch.int32)}, "document needs a value for every key"),
        ({"document": torch.zeros(128, 3, dtype=torch.int32).T}, "the last axis must be contiguous"),
    ],
)
def test_what_is_wrong_is_named(compiler, changes, told):
    with pytest.raises(KgenError) as error:
        call(compiler, FULL, given(**changes))
    assert told in str(error.value)


def test_what_a_variant_takes_is_told():
    with pytest.raises(KgenError) as error:
        ordered("toy", FULL, {})
    assert len(error.value.diagnostics) == 5
    listed = "window: int, cap: float, slope: float[head], start: int[batch], document: int[kv]"
    assert error.value.diagnostics[0].hint == f"arguments of full: {listed}"


def test_a_name_that_is_not_known_lists_the_others():
    assert find_rule(VARIED, {}, None) is PLAIN
    assert find_rule(VARIED, {"own": OWN}, "own") is OWN
    assert find_rule(POLICY, {}, None) is None
    with pytest.raises(KgenError, match="did you mean 'full'"):
        find_rule(VARIED, {}, "ful")


def test_values_of_any_number_type_are_taken():
    _, singles = ordered("toy", FULL, given(window=torch.tensor(9), cap=torch.tensor(2)))
    assert singles == [9, 2.0]


def own(built, rule):
    return with_entry(built, variant=rule)


def test_a_mask_of_a_build_is_known_by_its_kernels_and_not_built_on_demand(compiler):
    compiler.current = VARIED
    dispatcher = toy_dispatcher(compiler)
    with pytest.raises(KgenError, match="no variant is named 'own'"):
        dispatcher.rule("toy", "own")
    dispatcher.registry.add([own(compiler.make(variant="own"), OWN)])
    assert dispatcher.rule("toy", "own") == OWN
    assert call_own(dispatcher, {"step": 4}) is True
    with pytest.raises(KgenError, match="masks of a build are built with it alone"):
        call_own(
            dispatcher,
            {"step": 4},
            layout="packed",
            k_cache=torch.zeros(5, 2, 2, 16, 4),
            v_cache=torch.zeros(5, 2, 8, 16),
        )
    assert compiler.built == []


def call_own(dispatcher, variant_args, **changes):
    operator = operator_with(CHOOSING, OWN)
    values = list(arguments(variant="own", **changes).values())
    values[0] = torch.zeros(len(policy_with(VARIED, OWN).words), dtype=torch.int64)
    arrays, singles = ordered("toy", OWN, variant_args)
    return dispatcher.caller(operator)(*values[:5], *arrays, *values[5:8], *singles, *values[8:])


def test_two_meanings_of_one_name_are_refused(compiler):
    compiler.current = VARIED
    other = replace(OWN, mask=["bool", False], where="two.yaml:5:3")
    dispatcher = toy_dispatcher(compiler)
    dispatcher.registry.add([own(compiler.make(variant="own", library="one"), OWN)])
    dispatcher.registry.add([own(compiler.make(variant="own", reuse=8, library="two"), other)])
    with pytest.raises(KgenError) as error:
        dispatcher.rule("toy", "own")
    assert error.value.diagnostics[0].code == "K524"
    assert {"one is at one.yaml:2:3", "the other at two.yaml:5:3"} <= set(error.value.diagnostics[0].notes)


def test_a_kernel_that_hides_another_of_its_name_does_not_hide_its_meaning(compiler):
    compiler.current = VARIED
    dispatcher = toy_dispatcher(compiler)
    for library, rule in (("one", OWN), ("two", replace(OWN, mask=["bool", False]))):
        dispatcher.registry.add([own(compiler.make(variant="own", library=library), rule)])
    with pytest.raises(KgenError, match="give the mask 'own' two meanings"):
        dispatcher.rule("toy", "own")
    again = toy_dispatcher(compiler)
    for rule in (replace(OWN, mask=["bool", False]), OWN):  # a build that was changed and built again
        again.registry.add([own(compiler.make(variant="own", library="one"), rule)])
    assert again.rule("toy", "own") == OWN


def test_packing_for_torch_keeps_every_value():
    variant_args = given()
    assert unpack(*pack(variant_args)).keys() == variant_args.keys()
    assert unpack(*pack(variant_args))["window"] == 7
    assert unpack(*pack(None)) == {} == unpack()
