"""What a manifest document says after a round trip, and what is said of one that was harmed."""

import dataclasses
import json

import pytest

from kgen.diagnostics import KgenError
from kgen.manifest import (
    ArgumentRule,
    AxisRule,
    Entry,
    Guard,
    Launch,
    Library,
    ParamRule,
    Policy,
    SelectRule,
    Word,
    to_json,
)
from kgen.manifest_read import from_json, read_entry, read_library

LAST = Launch((["int", 1], ["int", 1], ["int", 1]), 64, symbol="last")
ENTRY = Entry(
    name="merge_states_cpu_generic_f32_d64",
    op="merge_states",
    key="abc",
    params={"arch": "cpu_generic", "head_dim": 64, "scale": 0.5, "fast": True},
    target="cpu_generic",
    kind="cpu",
    artefact="kernel.so",
    symbol="kernel",
    sha256="00",
    requires=("avx2",),
    resources={"bytes": 12},
    launch=Launch((["name", "num_seqs"], ["int", 1], ["int", 1]), 256, symbol="k", then=LAST),
    compile_seconds=1.5,
)
POLICY = Policy(
    op="merge_states",
    spec_hash="ff",
    params=(ParamRule("head_dim", "int", "d{}", (64, 128), ["int", 64]),),
    arguments=(
        ArgumentRule(
            "out", "tensor", "dtype", (AxisRule("row", ["name", "num_rows"], True),), access="write"
        ),
    ),
    words=(Word("abi", "int"), Word("out_stride_row", "stride", "out", "row")),
    facts=(("group", ["//", ["name", "num_heads"], ["name", "num_kv_heads"]]),),
    guards=(Guard([">", ["name", "num_rows"], ["int", 0]], "rows", "a.yaml:1:2"),),
    select=(SelectRule("head_dim", ["int", 64], "exact", "a.yaml:3:4", "one", {"one": ["int", 64]}, "X"),),
    layouts={"bshd": {"k": ["block"]}},
)
LIBRARY = Library("host", (ENTRY,), (POLICY,))


@pytest.mark.parametrize("document", [ENTRY, POLICY, LIBRARY], ids=["entry", "policy", "library"])
def test_round_trip(document):
    text = to_json(document)
    back = from_json(type(document), text, "x.json")
    assert back == document
    assert to_json(back) == text


def test_files_are_read(tmp_path):
    (tmp_path / "e.json").write_text(to_json(ENTRY))
    (tmp_path / "l.json").write_text(to_json(LIBRARY))
    assert read_entry(tmp_path / "e.json") == ENTRY
    assert read_library(tmp_path / "l.json") == LIBRARY


def edited(**changes):
    data = json.loads(to_json(ENTRY))
    data.update(changes)
    return json.dumps({k: v for k, v in data.items() if v != "DROP"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "name must be a string, found 3"),
        ({"sha256": "DROP"}, "sha256 is missing"),
        ({"symbl": "x"}, "symbl is no field of Entry"),
        ({"params": []}, "params must be an object"),
        ({"params": {"head_dim": None}}, "params.head_dim must be a number"),
        ({"requires": "avx2"}, 'requires must be a list, found "avx2"'),
        ({"requires": [1]}, "requires[0] must be a string"),
        ({"launch": {"grid": [["int", 1]], "block": 1}}, "launch.grid must hold 3 values, found 1"),
        ({"launch": {"grid": [[], ["int", 1], ["int", 1]], "block": 1}}, "launch.grid[0] is not a coded"),
        ({"launch": {"grid": [["int", None], ["int", 1], ["int", 1]], "block": 1}}, "launch.grid[0] is not"),
        ({"compile_seconds": "fast"}, "compile_seconds must be a number"),
        ({"version": True}, "version must be an integer, found true"),
    ],
)
def test_a_bad_field_is_named(changes, message):
    with pytest.raises(KgenError) as caught:
        from_json(Entry, edited(**changes), "x.json")
    assert "x.json: " + message in str(caught.value)
    assert caught.value.diagnostics[0].code == "K421"


def test_a_misspelt_field_has_a_suggestion():
    with pytest.raises(KgenError, match="did you mean 'symbol'"):
        from_json(Entry, edited(symbl="x"), "x.json")


def test_every_fault_is_told_at_once():
    with pytest.raises(KgenError) as caught:
        from_json(Entry, edited(name=3, symbol=4, requires=[5]), "x.json")
    assert len(caught.value.diagnostics) == 3


def test_a_fault_deep_inside_a_library_has_its_path():
    data = json.loads(to_json(LIBRARY))
    data["policies"][0]["arguments"][0]["axes"][0]["unit"] = 1
    with pytest.raises(KgenError, match=r"policies\[0\].arguments\[0\].axes\[0\].unit must be true or false"):
        from_json(Library, json.dumps(data), "l.json")


def test_lists_of_operands_are_code():
    chain = ["compare", ["<", "<="], [["int", 1], ["name", "x"], ["int", 3]]]
    member = ["in", ["name", "kind"], [["str", "a"], ["str", "b"]]]
    guards = [Guard(["and", chain, member], "why", "x.yaml:1:1")]
    policy = dataclasses.replace(LIBRARY.policies[0], guards=tuple(guards))
    assert from_json(Policy, to_json(policy), "p.json") == policy
    for wrong in (["in", ["name", "kind"], [["str", "a"], 3]], ["in", ["name", "kind"], []]):
        broken = dataclasses.replace(policy, guards=(Guard(wrong, "why", "x.yaml:1:1"),))
        with pytest.raises(KgenError, match="is not a coded expression"):
            from_json(Policy, to_json(broken), "p.json")


@pytest.mark.parametrize("keep", [0, 1, 40, -3])
def test_a_document_cut_short_is_refused(keep):
    with pytest.raises(KgenError) as caught:
        from_json(Entry, to_json(ENTRY)[:keep], "x.json")
    assert "K421" in str(caught.value) and "x.json" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', '{"a": NaN}', "[" * 100_000])
def test_other_documents_are_refused(text):
    with pytest.raises(KgenError, match=r"x\.json"):
        from_json(Entry, text, "x.json")


@pytest.mark.parametrize(("field", "what"), [("version", "schema"), ("abi", "argument block")])
def test_another_version_is_refused_before_its_fields(field, what):
    with pytest.raises(KgenError, match="build the library again") as caught:
        from_json(Entry, edited(**{field: 99, "name": 3}), "x.json")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "K422" and f"{what} version 99" in diagnostic.message


def test_a_library_with_a_kernel_of_another_abi_is_refused():
    data = json.loads(to_json(LIBRARY))
    data["entries"][0]["abi"] = 99
    with pytest.raises(KgenError, match="argument block version 99"):
        from_json(Library, json.dumps(data), "l.json")


def test_a_missing_file_and_a_binary_one(tmp_path):
    with pytest.raises(KgenError, match="cannot read"):
        read_entry(tmp_path / "absent.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(KgenError, match="not UTF-8"):
        read_entry(tmp_path / "b.json")
