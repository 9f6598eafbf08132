"""The address formulas of a paged KV cache, written out by hand, against the layout arithmetic."""

from itertools import product

import pytest

from kgen.layout import Layout, Sizes, TensorOrder, offset, shape, strides

BSHD = TensorOrder(("block", "token", "head", "dim"))
BHSD = TensorOrder(("block", "head", "token", "dim"))
TRANSPOSED = TensorOrder(("block", "head", "dim", "token"))
PACKED = TensorOrder(("block", "head", "dim", "token", "inner"), split=0)
SIZES = Sizes(num_blocks=3, num_heads=2, block_size=4, head_dim=16, itemsize=2)


def every_element(sizes: Sizes):
    return product(
        range(sizes.num_blocks), range(sizes.num_heads), range(sizes.block_size), range(sizes.head_dim)
    )


def byte_offset(order: TensorOrder, sizes: Sizes, p: int, h: int, t: int, d: int) -> int:
    return offset(order, sizes, block=p, head=h, token=t, dim=d) * sizes.itemsize


@pytest.mark.parametrize("itemsize", [2, 4])
def test_layout_a_bshd(itemsize):
    sizes = Sizes(3, 2, 4, 16, itemsize)
    b, h_, d_, s = sizes.block_size, sizes.num_heads, sizes.head_dim, itemsize
    for p, h, t, d in every_element(sizes):
        assert byte_offset(BSHD, sizes, p, h, t, d) == (p * b * h_ * d_ + t * h_ * d_ + h * d_ + d) * s


@pytest.mark.parametrize("itemsize", [2, 4])
def test_layout_b_bhsd(itemsize):
    sizes = Sizes(3, 2, 4, 16, itemsize)
    b, h_, d_, s = sizes.block_size, sizes.num_heads, sizes.head_dim, itemsize
    for p, h, t, d in every_element(sizes):
        assert byte_offset(BHSD, sizes, p, h, t, d) == (p * h_ * b * d_ + h * b * d_ + t * d_ + d) * s


@pytest.mark.parametrize("itemsize", [2, 4])
def test_layout_c_transposed_values(itemsize):
    sizes = Sizes(3, 2, 4, 16, itemsize)
    b, h_, d_, s = sizes.block_size, sizes.num_heads, sizes.head_dim, itemsize
    for p, h, t, d in every_element(sizes):
        assert byte_offset(TRANSPOSED, sizes, p, h, t, d) == (p * h_ * d_ * b + h * d_ * b + d * b + t) * s


@pytest.mark.parametrize(("itemsize", "x"), [(1, 16), (2, 8), (4, 4)])
def test_packed_keys_hold_sixteen_bytes_a_group(itemsize, x):
    sizes = Sizes(3, 2, 4, 32, itemsize)
    b, h_, d_ = sizes.block_size, sizes.num_heads, sizes.head_dim
    assert PACKED.width(itemsize) == x
    assert shape(PACKED, sizes) == (3, h_, d_ // x, b, x)
    for p, h, t, d in every_element(sizes):
        by_hand = (((p * h_ + h) * (d_ // x) + d // x) * b + t) * x + d % x
        assert byte_offset(PACKED, sizes, p, h, t, d) == by_hand * itemsize


def test_a_worked_address():
    # Page 7, token 5 of 16, head 3 of 8, dim 100 of 128, two bytes an element.
    sizes = Sizes(num_blocks=10, num_heads=8, block_size=16, head_dim=128, itemsize=2)
    assert byte_offset(BSHD, sizes, 7, 3, 5, 100) == 240_584
    assert byte_offset(BHSD, sizes, 7, 3, 5, 100) == 243_144
    assert byte_offset(TRANSPOSED, sizes, 7, 3, 5, 100) == 244_874
    assert byte_offset(PACKED, sizes, 7, 3, 5, 100) == 244_824


def test_offsets_past_two_to_the_31_are_exact():
    sizes = Sizes(num_blocks=1 << 20, num_heads=8, block_size=16, head_dim=128, itemsize=2)
    last = offset(BSHD, sizes, block=(1 << 20) - 1, head=7, token=15, dim=127)
    assert last == (1 << 20) * 8 * 16 * 128 - 1 > 1 << 31


@pytest.mark.parametrize("order", [BSHD, BHSD, TRANSPOSED, PACKED])
def test_every_order_is_a_bijection_onto_the_cache(order):
    seen = {offset(order, SIZES, block=p, head=h, token=t, dim=d) for p, h, t, d in every_element(SIZES)}
    assert seen == set(range(3 * 2 * 4 * 16))


@pytest.mark.parametrize("order", [BSHD, BHSD, TRANSPOSED, PACKED])
def test_strides_agree_with_the_shape(order):
    by_axis = strides(order, SIZES)
    extents = shape(order, SIZES)
    assert by_axis[order.innermost] == 1
    assert by_axis[order.axes[0]] * extents[0] == 3 * 2 * 4 * 16


def test_layout_names_k_and_v_apart():
    layout = Layout("bhsd_vt", BHSD, TRANSPOSED)
    assert layout.order("k") is BHSD
    assert layout.order("v") is TRANSPOSED
    assert TRANSPOSED.innermost == "token"
