"""How scratch memory is laid out, and how that follows from scalars."""

from types import SimpleNamespace

import pytest

from kgen.diagnostics import KgenError
from kgen.dispatch.scratch import scratch_of
from kgen.dispatch.tracking import Tracker
from kgen.dispatch.workspace import ALIGNMENT, ZEROED
from kgen.manifest import ArgumentRule
from kgen.semantics import INT_MIN
from tests.dispatch.toy import axis, integer, name

PARTS = ["call", "ceil_div", name("limit"), integer(512)]


def part(text, *sizes, dtype="f32", **options):
    axes = tuple(axis(f"axis{i}", size) for i, size in enumerate(sizes))
    return ArgumentRule(text, "tensor", dtype, axes, workspace=True, **options)


def laid_out(*rules, limit=1100, **names):
    tracker = Tracker({**names, "limit": limit}, {"limit": limit})
    return scratch_of(SimpleNamespace(op="toy", arguments=rules), tracker), tracker.intervals["limit"]


def at(scratch, limit):
    """(bytes, offsets) for another limit."""
    there = lambda one: one.path.at(limit) if one.path else one.value  # noqa: E731
    return there(scratch.size), {text: there(one) for text, one in scratch.offsets.items()}


def test_the_largest_lies_first_while_it_is():
    sums, rest = part("sums", PARTS, integer(10)), part("rest", integer(50))
    scratch, where = laid_out(sums, rest)
    assert at(scratch, 1100) == (320, {"rest": 0, "sums": 200})
    assert where[1] == 2560  # with 5 parts they are equal, and go by name
    assert at(scratch, 2560) == (400, {"rest": 0, "sums": 200})
    more, where = laid_out(sums, rest, limit=3000)
    assert at(more, 3000) == (440, {"sums": 0, "rest": 240}) and where[0] == 2561


def test_strides_are_those_of_a_contiguous_argument():
    scratch, _ = laid_out(part("sums", name("rows"), PARTS, integer(7), dtype="i64"), rows=3)
    strides = scratch.strides["sums"]
    assert {text: one.value for text, one in strides.items()} == {"axis0": 21, "axis1": 7, "axis2": 1}
    assert strides["axis0"].path.at(5000) == 70 and strides["axis1"].path is None
    assert scratch.size.path.at(5000) == 3 * 10 * 7 * 8


def test_zeros_lie_before_all_else_and_are_not_more_than_there_are():
    zeros = part("zeros", PARTS, zeroed=True)
    scratch, (low, high) = laid_out(zeros, part("rest", integer(50)))
    assert at(scratch, 1100) == (200, {"rest": 0, "zeros": -ALIGNMENT})
    assert at(scratch, 512 * 17) == (200, {"rest": 0, "zeros": -2 * ALIGNMENT})
    assert high == 512 * ZEROED // 4 and low > INT_MIN
    with pytest.raises(KgenError, match=f"needs {ZEROED + 4} bytes of zeros; a workspace has {ZEROED}"):
        laid_out(zeros, limit=high + 1)


def test_what_is_not_needed_has_no_place():
    scratch, _ = laid_out(part("sums", PARTS, when=[">", name("rows"), integer(3)]), rows=3)
    assert (scratch.size.value, scratch.offsets, scratch.strides) == (0, {}, {})


def test_more_bytes_than_can_be_counted_are_refused():
    with pytest.raises(KgenError, match="sums would take more than 9223372036854775807 bytes"):
        laid_out(part("sums", integer(2**40), integer(2**30)))
