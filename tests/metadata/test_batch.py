"""The arrays of a ragged batch: the example number for number, both conventions, and what is refused."""

from dataclasses import replace

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.metadata import (
    POOL,
    SEPARATE,
    block_table_of,
    from_arrays,
    from_block_table,
    from_slots,
    slots_of,
)

PREFIXES = [[108, 109, 110, 111], [], [80, 81, 82, 83, 84]]
NEW = [[42, 43], [201, 202, 203], [99]]


def numbers(batch):
    names = (
        "extend_seq_lens",
        "seq_lens",
        "extend_prefix_lens",
        "qo_indptr",
        "kv_indptr",
        "extend_start_loc",
    )
    return {name: getattr(batch, name).tolist() for name in names}


def arrays(*values, dtype=torch.int32):
    return [torch.tensor(value, dtype=dtype) for value in values]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_three_requests(dtype):
    """Two turns of a dialogue, a new request, and a template with one new token."""
    batch = from_slots(PREFIXES, NEW, dtype=dtype)
    assert numbers(batch) == {
        "extend_seq_lens": [2, 3, 1],
        "seq_lens": [6, 3, 6],
        "extend_prefix_lens": [4, 0, 5],
        "qo_indptr": [0, 2, 5, 6],
        "kv_indptr": [0, 6, 9, 15],
        "extend_start_loc": [0, 2, 5],
    }
    assert batch.kv_indices.tolist() == [
        108, 109, 110, 111, 42, 43, 201, 202, 203, 80, 81, 82, 83, 84, 99,
    ]  # fmt: skip
    assert (batch.total_q, batch.max_extend_len, batch.max_seq_len, batch.num_seqs) == (6, 3, 6, 3)
    assert {getattr(batch, name).dtype for name in ("qo_indptr", "kv_indices", "seq_lens")} == {dtype}


def test_three_requests_whose_new_keys_are_tensors():
    batch = from_slots(PREFIXES, NEW, convention=SEPARATE)
    assert numbers(batch) == {**numbers(from_slots(PREFIXES, NEW)), "kv_indptr": [0, 4, 4, 9]}
    assert batch.kv_indices.tolist() == [108, 109, 110, 111, 80, 81, 82, 83, 84]


@pytest.mark.parametrize("convention", [POOL, SEPARATE])
def test_lengths_follow_from_arrays(convention):
    made = from_slots(PREFIXES, NEW, convention=convention)
    again = from_arrays(made.qo_indptr, made.kv_indptr, made.kv_indices, convention=convention)
    assert numbers(again) == numbers(made)


def test_a_prompt_of_which_800_tokens_are_cached():
    batch = from_slots([list(range(800))], [list(range(2000, 2200))])
    assert (batch.kv_indices.shape[0], batch.total_q, batch.max_seq_len) == (1000, 200, 1000)


def test_a_block_table_is_passed_through():
    table = torch.tensor([[7, 2, -1], [5, 9, 4]], dtype=torch.int32)
    seq_lens, extend = arrays([17, 48], [3, 48])
    batch = from_block_table(table, seq_lens, extend, 16, num_blocks=10)
    assert batch.kv_indices.data_ptr() == table.data_ptr()
    assert numbers(batch) == {
        "extend_seq_lens": [3, 48],
        "seq_lens": [17, 48],
        "extend_prefix_lens": [14, 0],
        "qo_indptr": [0, 3, 51],
        "kv_indptr": [0, 3, 6],
        "extend_start_loc": [0, 3],
    }


def test_more_queries_than_keys():
    batch = from_arrays(*arrays([0, 5], [0, 2], [8, 9]))
    assert batch.extend_prefix_lens.tolist() == [-3]


def test_no_sequences():
    batch = from_slots([], [])
    assert (batch.num_seqs, batch.total_q, batch.max_seq_len) == (0, 0, 0)


@pytest.mark.parametrize(
    ("qo", "kv", "indices", "options", "code", "told"),
    [
        ([0, 3, 2], [0, 3, 5], [1, 2, 3, 4, 5], {}, "K540", "qo_indptr falls from 3 to 2 behind sequence 1"),
        ([0, 1, 2], [0, 3, 1], [1, 2, 3], {}, "K540", "kv_indptr falls from 3 to 1 behind sequence 1"),
        ([1, 2], [0, 3], [1, 2, 3], {}, "K540", "qo_indptr begins with 1"),
        ([0, 1], [0, 4], [1, 2, 3], {}, "K540", "kv_indptr ends at 4, but there are 3 entries"),
        ([0, 1, 2], [0, 3], [1, 2, 3], {}, "K541", "different numbers of sequences"),
        (
            [0, 1],
            [0, 3],
            [1, 2, 3],
            {"seq_lens": [4]},
            "K541",
            "has 3 slots; all its tokens, the new ones too need 4",
        ),
        ([0, 1], [0, 3], [1, 2, 3], {"seq_lens": [3], "convention": SEPARATE}, "K541", "its prefix need 2"),
        ([0, 4], [0, 0], [], {"seq_lens": [3], "convention": SEPARATE}, "K541", "has 3 tokens in all"),
        ([0, 1], [0, 3], [1, 2, 3], {"seq_lens": [-1]}, "K541", "has -1 tokens"),
        ([0, 1], [0, 2], [1, 2], {"block_size": 16}, "K541", "give seq_lens"),
        ([0, 1], [0, 2], [1, 2], {"block_size": 16, "seq_lens": [33]}, "K541", "has 2 pages of 16 tokens"),
        (
            [0, 1],
            [0, 2],
            [1, 9],
            {"num_blocks": 9},
            "K543",
            "sequence 0, entry 1: slot 9 is outside the pool of 9",
        ),
        ([0, 1], [0, 2], [-1, 2], {}, "K543", "slot -1"),
        ([0, 1], [0, 2], [1, 2], {"convention": "pol"}, "K542", "did you mean 'pool'"),
        ([0, 1], [0, 2], [1, 2], {"max_seq_len": 1}, "K544", "max_seq_len is 1, but the arrays reach 2"),
        ([0, 1], [0, 2], [1, 2], {"total_q": 2}, "K544", "total_q is 2"),
    ],
)
def test_what_disagrees_is_refused(qo, kv, indices, options, code, told):
    if "seq_lens" in options:
        options = {**options, "seq_lens": torch.tensor(options["seq_lens"], dtype=torch.int32)}
    with pytest.raises(KgenError) as error:
        from_arrays(*arrays(qo, kv, indices), **options)
    assert error.value.diagnostics[0].code == code
    assert told in str(error.value)


def test_kinds_are_refused():
    floats = torch.tensor([0.0, 1.0])
    with pytest.raises(KgenError, match="int32 or int64, not float32"):
        from_arrays(floats, *arrays([0, 1], [4]))
    with pytest.raises(KgenError, match="it has one axis"):
        from_arrays(torch.zeros(1, 2, dtype=torch.int32), *arrays([0, 1], [4]))
    with pytest.raises(KgenError, match="2 sequences have a prefix, 1 have new tokens"):
        from_slots([[], []], [[1]])


def test_unused_entries_of_a_table_are_not_looked_at():
    table = torch.tensor([[3, -1], [1, 99]], dtype=torch.int32)
    from_block_table(table, *arrays([16, 2], [1, 1]), 16, num_blocks=4)
    with pytest.raises(KgenError, match="sequence 1, entry 1: block id 99"):
        from_block_table(table, *arrays([16, 17], [1, 1]), 16, num_blocks=4)


def test_on_a_device_nothing_is_read_and_bounds_are_asked_for():
    device = torch.device("meta")
    qo, kv, indices = (array.to(device) for array in arrays([0, 1], [0, 2], [1, 2]))
    with pytest.raises(KgenError, match="total_q must be given"):
        from_arrays(qo, kv, indices)
    batch = from_arrays(qo, kv, indices, max_extend_len=1, max_seq_len=2, total_q=1)
    assert (batch.num_seqs, batch.seq_lens.device.type) == (1, "meta")


# ---- Block tables from slots, and back ------------------------------------------------------------------


def test_a_table_from_slots_and_back():
    kv_indptr, kv_indices = arrays([0, 5, 5, 9], [8, 9, 10, 11, 4, 0, 1, 2, 3])
    table = block_table_of(kv_indptr, kv_indices, 4)
    assert table.tolist() == [[2, 1], [-1, -1], [0, -1]]
    again = slots_of(table, *arrays([5, 0, 4]), 4)
    assert [part.tolist() for part in again] == [kv_indptr.tolist(), kv_indices.tolist()]


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ([8, 9, 11, 10], "sequence 0, token 2: slot 11 is not where a page of 4 tokens would have it"),
        ([9, 10, 11, 12], "token 0: slot 9"),
    ],
)
def test_slots_that_are_no_pages_are_refused(slots, told):
    with pytest.raises(KgenError) as error:
        block_table_of(*arrays([0, 4], slots), 4)
    assert error.value.diagnostics[0].code == "K545"
    assert told in str(error.value)


def test_pages_of_one_token_are_the_slots():
    kv_indptr, kv_indices = arrays([0, 2, 3], [5, 9, 1])
    assert block_table_of(kv_indptr, kv_indices, 1).tolist() == [[5, 9], [1, -1]]


def test_tables_are_checked_too():
    with pytest.raises(KgenError, match="slot 12 is outside the pool of 12"):
        block_table_of(*arrays([0, 1], [12]), 4, num_slots=12)
    with pytest.raises(KgenError, match="its row of the table holds 8"):
        slots_of(torch.zeros(1, 2, dtype=torch.int32), *arrays([9]), 4)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_batch_knows_whether_kernels_read_it_as_it_is(dtype):
    batch = from_slots([[1, 2], []], [[3], [4, 5]], dtype=dtype)
    assert batch.is_int32 == (dtype is torch.int32)
    mixed = replace(batch.to("cpu", torch.int32), kv_indices=batch.kv_indices.long())
    assert not mixed.is_int32
