"""YAML as specs use it: nodes with places, and everything else refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.diagnostics import Collector, KgenError, Source
from kgen.syntax.yaml import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    BadNode,
    ListNode,
    MapNode,
    ScalarNode,
    load,
)


def source(text: str) -> Source:
    return Source("s.yaml", text)


def codes(text: str) -> list[str]:
    with pytest.raises(KgenError) as caught:
        load(source(text))
    return [diagnostic.code for diagnostic in caught.value.diagnostics]


def test_nodes_know_where_they_stand():
    text = "name: decode\nlist:\n  - one\n  - {a: 1, 'b': \"2\"}\n"
    node = load(source(text))
    assert isinstance(node, MapNode)
    assert [(e.key.text, str(e.key.span), str(e.value.span)) for e in node.entries] == [
        ("name", "s.yaml:1:1", "s.yaml:1:7"),
        ("list", "s.yaml:2:1", "s.yaml:3:3"),
    ]
    items = node.entries[1].value
    assert isinstance(items, ListNode)
    assert isinstance(items.items[1], MapNode)
    a, b = items.items[1].entries
    assert (a.value.span.line, a.value.span.col, a.value.span.end_col) == (4, 9, 10)
    assert isinstance(a.value, ScalarNode) and not a.value.quoted
    assert isinstance(b.value, ScalarNode) and b.value.quoted and b.value.text == "2"


def test_scalars_stay_text():
    node = load(source("[yes, 1_000, 0o7, 12:30, null, ~, 1e3, 2020-01-01]"))
    assert isinstance(node, ListNode)
    texts = [item.text for item in node.items if isinstance(item, ScalarNode)]
    assert texts == ["yes", "1_000", "0o7", "12:30", "null", "~", "1e3", "2020-01-01"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x 1", ["K102"]),
        ("a: *x", ["K102"]),
        ("a: &x 1\nb: *x\n<<: {c: 1}", ["K102", "K102", "K102"]),
        ("a: !!python/object/apply:os.system [ls]", ["K102"]),
        ("a: !custom 3", ["K102"]),
        ("!!set {a}", ["K102"]),
        ("a: 1\na: 2\nb: {c: 1, c: 2}", ["K103", "K103"]),
        ("[a, b]: 1", ["K102"]),
        ("a: 1\n---\nb: 2", ["K102"]),
        ("", ["K101"]),
        ("# nothing but a comment\n", ["K101"]),
        ("a: 'b", ["K101"]),
        ("a: [1", ["K101"]),
        ("a: b: c", ["K101"]),
        ("\ta: 1", ["K101"]),
        ("a: \x00", ["K101"]),
        ("%YAML 9.9\n---\na: 1", ["K101"]),
    ],
)
def test_what_is_no_spec_is_refused(text: str, expected: list[str]):
    assert codes(text) == expected


def test_faults_that_leave_a_tree_let_the_rest_be_read():
    found = Collector()
    node = load(source("a: *x\nb: 1\nb: 2\nc: 3"), found)
    assert isinstance(node, MapNode)
    assert [entry.key.text for entry in node.entries] == ["a", "b", "c"]
    assert isinstance(node.entries[0].value, BadNode)
    assert [d.code for d in found.diagnostics] == ["K102", "K103"]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "text",
    [
        nested(100_000),
        nested(50_000),
        "{a: " * 20_000,
        "- " * 50_000 + "a",
        "? " * 50_000,
        "".join(" " * i + "a:\n" for i in range(200)),
        "a" * 10_000_000,
        "[" + "a," * (MAX_NODES + 1) + "]",
        "- a\n" * (MAX_NODES + 1),
        "&a [" * 10_000,
    ],
    ids=range(10),
)
def test_what_is_too_large_is_refused(text: str):
    assert codes(text)[-1] == "K104"


def test_the_limits_themselves_are_allowed():
    assert isinstance(load(source(nested(MAX_DEPTH))), ListNode)
    assert isinstance(load(source("a" * MAX_CHARACTERS)), ScalarNode)


def test_a_bomb_of_aliases_stays_small():
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    found = Collector()
    load(source("\n".join(lines)), found)
    assert {d.code for d in found.diagnostics} == {"K102"}
    assert len(found.diagnostics) == 9 + 8 * 9


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="ab: -[]{},'\"\n#&*!|>%@`?~0", max_size=80) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str):
    try:
        load(source(text))
    except KgenError as error:
        assert all(d.code in ("K101", "K102", "K103", "K104") for d in error.diagnostics)
        str(error)
