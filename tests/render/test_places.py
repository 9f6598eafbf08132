"""Places of a wave as C++ text, and the forms of the products of every GPU target."""

import itertools

import pytest

from kgen import api
from kgen.diagnostics import KgenError
from kgen.render.matrix_form import matrix_form
from kgen.render.places import place
from kgen.variants.loads import value_fragment
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


NVIDIA_FORMS = [("sm_80", False), ("sm_80", True), ("sm_90", False), ("sm_90", True)]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("name", "turned"),
    [*((name, False) for name in ("gfx90a", "gfx928", "gfx936", "gfx938", "gfx942")), *NVIDIA_FORMS],
)
def test_every_register_of_both_products_is_where_the_maps_say(name, turned, dtype):
    form = matrix_form(plan_products(api.check().targets[name], dtype, turned=turned))
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
        out_row = value(str(form.score_row), lane=lane, slot=value(str(form.out.slot), e=e))
        assert out_row == output.cells[lane][e][0]


@pytest.mark.parametrize(("name", "turned"), [("gfx936", False), ("gfx942", False), *NVIDIA_FORMS])
def test_outputs_lie_where_values_were_read(name, turned):
    """Tile j of a chunk multiplies, at an element of V, the dim where the template stores its sums."""
    form = matrix_form(plan_products(api.check().targets[name], "bf16", turned=turned))
    one, operands, out = form.instruction, form.operands, form.out
    output = one.d if operands.side == "A" else one.d.transposed()
    column_of = {}  # of a chunk's dim: the column of tile j, by what lanes read of V
    key = value_fragment(one, operands)
    for lane, tile, e in itertools.product(range(one.wave), range(form.value.tiles), range(key.elements)):
        dim = form.values.starts[lane] + value(str(form.value.at), tile=tile, e=e)
        column_of.setdefault(dim, set()).add((tile, key.cells[lane][e][1]))
    assert {len(found) for found in column_of.values()} == {1}
    stored = set()
    for lane, e in itertools.product(range(one.wave), range(one.d.elements)):
        if value(str(out.register), e=e, i=0) != e:
            continue
        for at in range(form.values.vector):
            tile, register = at // out.columns, value(str(out.register), e=e, i=at % out.columns)
            row, column = output.cells[lane][register]
            dim = value(str(out.dim), lane=lane, e=e) + at
            assert column_of[dim] == {(tile, column)}
            assert row == output.cells[lane][e][0]
            stored.add((row, dim))
    assert stored == set(itertools.product(range(operands.queries), range(form.values.chunk)))


def test_a_turned_tile_puts_eight_queries_beside_sixteen_tokens():
    form = matrix_form(plan_products(api.check().targets["sm_90"], "bf16", turned=True))
    assert (form.operands.queries, len(form.operands.tokens)) == (8, 16)
    assert (form.key.slots, form.value.tokens, form.value.tiles) == (2, 4, 4)
    assert plan_products(api.check().targets["gfx942"], "bf16", turned=True) is None


def test_a_target_without_an_instruction_has_no_form():
    with pytest.raises(KgenError, match="no form in registers"):
        matrix_form(None)
