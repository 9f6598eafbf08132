"""Loops of hand-made control flow."""

from kgen.inspect.code import Function, Instruction
from kgen.inspect.loops import find_loops, way_round


def code(*lines):
    """`text`, `text -> place` for a branch that may fall through, `text => place` for one that does not."""
    made = []
    for place, line in enumerate(lines):
        text, maybe, target = line.partition(" -> ")
        text, always, jump = text.partition(" => ")
        where = target or jump
        made.append(Instruction(place, text, int(where) if where else None, not always and text != "end"))
        assert not (maybe and always)
    return Function("f", tuple(made))


def shapes(function):
    return [(loop.header, [i.address for i in loop.own], loop.inner) for loop in find_loops(function)]


def test_straight_code_has_none():
    assert shapes(code("a", "b -> 3", "c", "end")) == []
    assert shapes(Function("f", ())) == []


def test_one_loop():
    assert shapes(code("a", "b", "c -> 1", "end")) == [(1, [1, 2], 0)]
    assert shapes(code("a -> 0", "end")) == [(0, [0], 0)]


def test_a_loop_with_its_test_at_the_top():
    assert shapes(code("a", "test -> 4", "b", "jump => 1", "end")) == [(1, [1, 2, 3], 0)]


def test_nested_loops_keep_their_instructions_apart():
    nested = code("a", "outer", "inner", "x -> 2", "y", "z -> 1", "end")
    assert shapes(nested) == [(1, [1, 4, 5], 1), (2, [2, 3], 0)]


def test_two_back_edges_of_one_header_are_one_loop():
    assert shapes(code("a", "h", "b -> 1", "c", "d -> 1", "end")) == [(1, [1, 2, 3, 4], 0)]


def test_code_out_of_line_belongs_to_its_loop():
    """The slow path lies behind the end of the kernel and jumps back into the loop."""
    assert shapes(code("a", "h -> 4", "b -> 1", "end", "slow", "back => 2")) == [(1, [1, 2, 4, 5], 0)]


def test_a_jump_back_into_the_middle_is_no_loop_of_its_own():
    """Two entries: neither place dominates the other, so there is no natural loop."""
    assert shapes(code("a -> 3", "b", "c", "d -> 2", "end")) == []


def test_a_backward_jump_to_code_that_does_not_return_is_none():
    assert shapes(code("a => 3", "b", "end", "c => 1")) == []


def test_unreachable_code_and_foreign_targets_are_left_alone():
    assert shapes(code("a -> 99", "end", "dead", "dead -> 2")) == []


def test_three_levels():
    deep = code("a", "b", "c", "x -> 2", "y -> 1", "z -> 0", "end")
    assert shapes(deep) == [(0, [0, 5], 2), (1, [1, 4], 1), (2, [2, 3], 0)]


def way(function, header):
    loop = next(loop for loop in find_loops(function) if loop.header == header)
    return [i.address for i in way_round(function, loop, lambda text: text.startswith("work"))]


def test_the_way_round_passes_all_work_and_nothing_it_can_leave_out():
    #          0    1             2       3        4              5         6       7          8
    taken = ("a", "test -> 4", "seldom", "work", "other -> 6", "seldom", "work", "back -> 1", "end")
    assert way(code(*taken), 1) == [1, 2, 3, 4, 6, 7]
    assert way(code("a", "test -> 4", "work", "work", "work", "back -> 1", "end"), 1) == [1, 2, 3, 4, 5]


def test_of_two_ways_back_that_with_more_work_is_taken():
    assert way(code("a", "work", "early -> 1", "work", "late -> 1", "end"), 1) == [1, 2, 3, 4]


def test_a_loop_that_always_passes_another_has_no_way_round():
    assert way(code("a", "outer", "inner -> 2", "z -> 1", "end"), 1) == []
