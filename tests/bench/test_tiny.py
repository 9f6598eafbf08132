"""The calls whose overhead is measured: they work, and what should grow from call to call does."""

import pytest

from kgen import ops
from kgen.bench import tiny


@pytest.fixture(scope="module")
def calls():
    return tiny.tiny_calls()


def asked(calls, name, monkeypatch, op):
    """The scalars and extents of three calls of that name."""
    seen = []
    original = getattr(ops, op)

    def note(q, *rest, **named):
        batch = rest[2] if op == "extend_attention" else None
        seen.append(
            (q.shape[0], named["max_seq_len"])
            if batch is None
            else (q.shape[0], batch.max_seq_len, batch.max_extend_len, batch.kv_indices.shape[0])
        )
        return original(q, *rest, **named)

    monkeypatch.setattr(ops, op, note)
    for _ in range(3):
        calls[name]()
    return seen


def test_lengths_of_decode_grow_where_they_should(calls, monkeypatch):
    fixed = asked(calls, "paged_attention, split", monkeypatch, "paged_attention")
    assert fixed == [(1, tiny.FIRST_LENGTH)] * 3
    monkeypatch.undo()
    growing = asked(calls, "paged_attention, split, growing", monkeypatch, "paged_attention")
    assert growing == [(1, growing[0][1] + i) for i in range(3)]
    monkeypatch.undo()
    assert asked(calls, "paged_attention of no rows", monkeypatch, "paged_attention")[0][0] == 0


def test_batches_of_extend_change_where_they_should(calls, monkeypatch):
    assert len(set(asked(calls, "extend_attention", monkeypatch, "extend_attention"))) == 1
    monkeypatch.undo()
    for name in ("extend_attention, growing", "extend_attention, other batches"):
        seen = asked(calls, name, monkeypatch, "extend_attention")
        monkeypatch.undo()
        assert len(set(seen)) == 3
    assert len({(rows, entries) for rows, *_, entries in seen}) == 3


def test_a_gpu_has_even_shares_too():
    one = tiny._tensors(tiny.torch.float32).first(1)
    assert set(tiny._decode(one, ("even",))) - set(tiny._decode(one, ())) == {
        "paged_attention, even",
        "paged_attention, even, growing",
    }
