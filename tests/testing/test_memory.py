import pytest
import torch

from kgen.testing.memory import (
    FAR,
    HUGE,
    LOOSE,
    NAN,
    PLAIN,
    STRIDED,
    place,
    place_cache,
    place_output,
    same_bits,
)


@pytest.mark.parametrize("form", [PLAIN, STRIDED, LOOSE], ids=lambda form: form.name)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 8), (0, 4), (2, 3, 4, 5)])
def test_values_survive(form, shape):
    values = torch.randn(shape)
    placed = place(values, form, NAN)
    assert torch.equal(placed.tensor, values)
    assert placed.tensor.stride()[-1] == 1
    assert placed.storage.isnan().sum() == placed.storage.numel() - values.numel()
    assert not placed.spilled() and not placed.changed()


def test_strided_has_gaps_in_every_axis_but_the_last():
    tensor = place(torch.zeros(2, 3, 8), STRIDED, NAN).tensor
    assert tensor.stride() == (4 * 16, 16, 1)


def test_loose_is_aligned_to_nothing():
    tensor = place(torch.zeros(2, 3, 8), LOOSE, NAN).tensor
    assert tensor.data_ptr() % 8 == 4
    assert tensor.stride() == (4 * 13, 13, 1)


@pytest.mark.parametrize("form", [PLAIN, STRIDED, LOOSE], ids=lambda form: form.name)
def test_a_write_outside_is_found(form):
    placed = place(torch.zeros(2, 3, 8), form, NAN)
    placed.tensor[1, 2, 3] = 7.0
    assert placed.changed() and not placed.spilled()
    placed.storage[form.guard - 1] = 0.0
    assert placed.spilled()


def test_a_write_between_rows_is_found():
    placed = place(torch.zeros(2, 3, 8), STRIDED, HUGE)
    placed.tensor.as_strided((1,), (1,), STRIDED.guard + 8).fill_(1.0)
    assert placed.spilled()


def test_an_output_starts_as_garbage():
    placed = place_output((2, 4), torch.bfloat16, PLAIN, NAN)
    assert placed.tensor.isnan().all()
    assert place_output((3,), torch.int32, PLAIN, HUGE).tensor.tolist() == [2**31 - 1] * 3
    assert place_output((3,), torch.uint8, PLAIN, NAN).tensor.tolist() == [0xA5] * 3


def test_far_pages_lie_past_two_to_the_31():
    values = torch.randn(5, 4, 2, 8, dtype=torch.float16)
    tensor = place_cache(values, FAR, NAN).tensor
    assert torch.equal(tensor, values)
    assert 4 * tensor.stride(0) > 2**31
    assert tensor.stride()[1:] == (16, 8, 1)


def test_bits_not_values():
    nan = torch.tensor([float("nan")])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.zeros(2), torch.zeros(1))
    assert same_bits(torch.zeros(2, 2).T, torch.zeros(2, 2))
