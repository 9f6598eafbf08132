"""The oracle against torch's own attention in float64, and against numbers worked by hand."""

import math

import pytest
import torch

from kgen import reference
from kgen.diagnostics import KgenError
from kgen.layout import Layout, Sizes, TensorOrder, offset, shape

BSHD = TensorOrder(("block", "token", "head", "dim"))
BHSD = TensorOrder(("block", "head", "token", "dim"))
TRANSPOSED = TensorOrder(("block", "head", "dim", "token"))
PACKED = TensorOrder(("block", "head", "dim", "token", "inner"), split=0)
LAYOUTS = [
    Layout("bshd", BSHD, BSHD),
    Layout("bhsd", BHSD, BHSD),
    Layout("bhsd_vt", BHSD, TRANSPOSED),
    Layout("vllm", PACKED, TRANSPOSED),
]
SIZES = Sizes(num_blocks=7, num_heads=2, block_size=4, head_dim=16, itemsize=4)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11), dtype=torch.float64)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (1, 40)])
@pytest.mark.parametrize("group", [1, 3])
def test_attention_is_torchs(queries, keys, group):
    q, k, v = draw(queries, 2 * group, 8), draw(keys, 2, 8), draw(keys, 2, 8) + 1
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    want = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(0, 1),
        k.transpose(0, 1),
        v.transpose(0, 1),
        attn_mask=mask,
        scale=0.31,
        enable_gqa=True,
    )
    out, lse = reference.attention(q, k, v, 0.31)
    torch.testing.assert_close(out, want.transpose(0, 1), rtol=1e-12, atol=1e-12)
    assert lse.shape == (queries, 2 * group)


def test_lse_by_hand():
    q = torch.tensor([[[2.0]]])
    k = torch.tensor([[[0.0]], [[1.0]]])
    v = torch.tensor([[[1.0]], [[5.0]]])
    out, lse = reference.attention(q, k, v, math.log(3.0) / 2.0)  # weights 1 and 3
    assert lse.item() == pytest.approx(math.log(4.0), rel=1e-12)
    assert out.item() == pytest.approx((1 * 1 + 3 * 5) / 4, rel=1e-12)


def test_the_three_by_seven_mask():
    q, k = torch.zeros(3, 1, 1), torch.zeros(7, 1, 1)
    v = torch.eye(7).view(7, 1, 7)
    out, lse = reference.attention(q, k, v, 1.0)
    want = [[1 / 5] * 5 + [0, 0], [1 / 6] * 6 + [0], [1 / 7] * 7]
    torch.testing.assert_close(out[:, 0], torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(lse[:, 0].exp(), torch.tensor([5.0, 6.0, 7.0], dtype=torch.float64))


def test_more_queries_than_keys_leaves_empty_rows():
    out, lse = reference.attention(draw(4, 1, 8), draw(2, 1, 8), draw(2, 1, 8) + 9, 1.0)
    assert torch.equal(out[:2], torch.zeros(2, 1, 8, dtype=torch.float64))
    assert torch.equal(lse[:2], torch.full((2, 1), -torch.inf, dtype=torch.float64))
    assert (out[2:].abs() > 1).any()


def test_scores_are_in_natural_units_after_the_scale():
    q, k, v = draw(1, 2, 8), draw(9, 1, 8), draw(9, 1, 8)
    seen = []

    def softcap(at: reference.Point) -> torch.Tensor:
        seen.append(at.s)
        return 1.5 * torch.tanh(at.s / 1.5)

    out, lse = reference.attention(q, k, v, 0.07, score=softcap)
    raw = torch.einsum("qhd,khd->hqk", q, k.expand(9, 2, 8)) * 0.07
    torch.testing.assert_close(seen[0], raw)
    capped = 1.5 * torch.tanh(raw / 1.5)
    torch.testing.assert_close(lse, torch.logsumexp(capped, -1).T)
    torch.testing.assert_close(out[0], torch.softmax(capped, -1)[:, 0] @ v[:, 0])


def test_alibi_uses_head_and_positions():
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64)
    q, k = torch.zeros(1, 2, 4), torch.zeros(3, 1, 4)
    v = torch.eye(3).view(3, 1, 3)
    out, _ = reference.attention(
        q, k, v, 1.0, score=lambda at: at.s + slopes[at.head] * (at.kv - at.q).double()
    )
    want = torch.tensor([[math.exp(-2 * s), math.exp(-s), 1.0] for s in (0.5, 0.25)], dtype=torch.float64)
    torch.testing.assert_close(out[0], want / want.sum(1, keepdim=True))


def test_a_sliding_window_is_a_mask():
    q, k = torch.zeros(1, 1, 4), torch.zeros(6, 1, 4)
    v = torch.eye(6).view(6, 1, 6)
    out, _ = reference.attention(q, k, v, 1.0, mask=lambda at: (at.kv <= at.q) & (at.q - at.kv < 2))
    torch.testing.assert_close(out[0, 0], torch.tensor([0, 0, 0, 0, 0.5, 0.5], dtype=torch.float64))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("tensor", ["k", "v"])
def test_gather_follows_the_layout(layout, tensor):
    order = layout.order(tensor)
    assert order is not None
    cache = torch.arange(math.prod(shape(order, SIZES)), dtype=torch.float32).view(shape(order, SIZES))
    rows = reference.gather_cache(cache, order, torch.tensor([5, 2, -1]), 6)
    assert rows.shape == (6, 2, 16)
    for token, head, dim in ((0, 0, 0), (3, 1, 15), (5, 1, 9)):
        block = (5, 2)[token // 4]
        assert rows[token, head, dim] == offset(
            order, SIZES, block=block, head=head, token=token % 4, dim=dim
        )


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_paging_changes_nothing(layout):
    keys, values = draw(11, 2, 16).float(), (draw(11, 2, 16) - 1).float()
    assert layout.k is not None and layout.v is not None
    k_cache = torch.full(shape(layout.k, SIZES), torch.nan)
    v_cache = torch.full(shape(layout.v, SIZES), torch.nan)
    table = torch.tensor([[6, 0, 3, -1], [2, 99, 99, 99]])
    slots = torch.tensor([table[0, t // 4] * 4 + t % 4 for t in range(11)] + [-1])
    padded = (torch.cat([x, torch.full((1, 2, 16), 7.0)]) for x in (keys, values))
    k_cache, v_cache = reference.reshape_and_cache(*padded, k_cache, v_cache, slots, layout)
    assert int(k_cache.isfinite().sum()) == 11 * 2 * 16

    q = draw(2, 6, 16).float()
    out, lse = reference.paged_attention(q, k_cache, v_cache, table, torch.tensor([11, 0]), 0.31, layout)
    want, want_lse = reference.attention(q[:1], keys, values, 0.31)
    assert torch.equal(out[:1], want)
    assert torch.equal(lse[:1], want_lse)
    assert torch.equal(out[1], torch.zeros(6, 16, dtype=torch.float64))
    assert torch.equal(lse[1], torch.full((6,), -torch.inf, dtype=torch.float64))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_canonical_round_trip(layout):
    assert layout.k is not None
    cache = torch.randn(shape(layout.k, SIZES))
    pages = reference.canonical(cache, layout.k)
    assert pages.shape == (7, 4, 2, 16)
    assert torch.equal(reference.from_canonical(pages, layout.k), cache)


def test_merge_equals_attention_over_the_union():
    q, k, v = draw(1, 3, 8), draw(20, 3, 8), draw(20, 3, 8)
    parts = [
        reference.attention(q, k[a:b], v[a:b], 0.4, mask=None) for a, b in ((0, 3), (3, 3), (3, 19), (19, 20))
    ]
    states = torch.stack([out[0] for out, _ in parts]).unsqueeze(0)
    lses = torch.stack([lse[0] for _, lse in parts]).unsqueeze(0)
    out, lse = reference.merge_states(states, lses)
    want, want_lse = reference.attention(q, k, v, 0.4, mask=None)
    torch.testing.assert_close(out, want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(lse, want_lse, rtol=1e-12, atol=1e-12)


def test_merge_with_nothing():
    states = torch.full((2, 2, 1, 4), torch.nan)
    states[1, 0] = 3.0
    lses = torch.full((2, 2, 1), -torch.inf)
    lses[1, 0] = -2.5
    out, lse = reference.merge_states(states, lses)
    assert torch.equal(out, torch.tensor([[[0.0] * 4], [[3.0] * 4]], dtype=torch.float64))
    assert torch.equal(lse, torch.tensor([[-torch.inf], [-2.5]], dtype=torch.float64))


def test_block_copies():
    cache = torch.arange(12, dtype=torch.uint8).view(4, 3)
    copied = reference.copy_blocks(cache, torch.tensor([[0, 3], [0, 1]]))
    assert copied.tolist() == [[0, 1, 2], [0, 1, 2], [6, 7, 8], [0, 1, 2]]
    swapped = reference.swap_blocks(cache, torch.zeros(2, 3, dtype=torch.uint8), torch.tensor([[2, 1]]))
    assert swapped.tolist() == [[0, 0, 0], [6, 7, 8]]
    assert cache[3].tolist() == [9, 10, 11]


@pytest.mark.parametrize("block", [-1, 7])
def test_a_block_id_outside_the_pool_is_refused(block):
    cache = torch.zeros(shape(BSHD, SIZES))
    with pytest.raises(KgenError, match=f"block id {block} is outside the pool of 7"):
        reference.gather_cache(cache, BSHD, torch.tensor([1, block]), 5)


def test_an_unknown_order_is_refused():
    layout = Layout("odd", BSHD, None, because="nobody knows")
    cache = torch.zeros(shape(BSHD, SIZES))
    with pytest.raises(KgenError, match="nobody knows"):
        reference.gather(cache, cache, layout, torch.tensor([0]), 1)
