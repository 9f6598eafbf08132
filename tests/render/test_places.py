"""Places of a wave as C++ text, and the forms of the products of every GPU target."""

import itertools

import pytest

from kgen import api
from kgen.diagnostics import KgenError
from kgen.render.matrix_form import matrix_form
from kgen.render.places import place
from kgen.variants.products import plan_products


def value(text: str, **names: int) -> int:
    return eval(text.replace("/", "//"), {}, names)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (lambda lane, e: lane % 16, "lane % 16"),
        (lambda lane, e: 8 * (lane // 16) + 2 * (e % 2) + 1, "lane / 16 * 8 + e % 2 * 2 + 1"),
        (lambda lane, e: 4 * (lane // 2 % 4) + 16 * (e // 2), "lane / 2 % 4 * 4 + e / 2 * 16"),
        (lambda lane, e: 0, "0"),
    ],
)
def test_a_table_reads_as_a_person_would_write_it(table, text):
    found = place({"lane": 64, "e": 4}, table)
    assert str(found) == text
    assert all(value(text, lane=at, e=e) == table(at, e) for at, e in itertools.product(range(64), range(4)))


def test_a_table_that_is_no_sum_over_bits_has_no_place():
    assert place({"lane": 64}, lambda lane: lane ^ (lane // 2)) is None


def test_parameters_without_use_have_no_name():
    found = place({"lane": 8, "e": 2}, lambda lane, e: lane)
    assert found is not None and found.parameters("lane", "e") == "int lane, int"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["gfx90a", "gfx928", "gfx936", "gfx938", "gfx942", "sm_80", "sm_90"])
def test_every_register_of_both_products_is_where_the_maps_say(name, dtype):
    form = matrix_form(plan_products(api.check().targets[name], dtype))
    one, operands = form.instruction, form.operands
    scores = one.d if operands.orientation == "S" else one.d.transposed()
    output = one.d if operands.side == "A" else one.d.transposed()
    for lane, tile, e in itertools.product(
        range(one.wave), range(operands.accumulators), range(one.d.elements)
    ):
        slot = value(str(form.score_slot), e=e)
        token = value(str(form.score_token), lane=lane, tile=tile, e=e)
        row = value(str(form.score_row), lane=lane, slot=slot)
        assert (row, token - tile * scores.cols) == scores.cells[lane][e]
        out_row = value(str(form.score_row), lane=lane, slot=value(str(form.out_slot), e=e))
        column = value(str(form.out_dim), lane=lane, e=e) // form.values.vector
        assert (out_row, column) == output.cells[lane][e]


def test_a_target_without_an_instruction_has_no_form():
    with pytest.raises(KgenError, match="no form in registers"):
        matrix_form(None)
