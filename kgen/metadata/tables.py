"""Block tables from token slots, and back."""

from __future__ import annotations

import torch
from torch import Tensor

from kgen.metadata.checks import check_pointer, check_range, fault, most, pages, rows_and_places, running


def block_table_of(
    kv_indptr: Tensor, kv_indices: Tensor, page_size: int, *, num_slots: int | None = None
) -> Tensor:
    """The block table [num_seqs, pages] of token slots, int32; -1 behind the pages of a row.

    Page i of a sequence is that of its token i * page_size. Raises KgenError: K543 for a slot outside the
    pool of `num_slots`, K545 where the tokens of a page do not lie side by side in one.
    """
    check_pointer("kv_indptr", kv_indptr, kv_indices.shape[0])
    slots, counts = kv_indices.long(), kv_indptr.diff().long()
    row, place = rows_and_places(counts)
    check_range(slots, num_slots, lambda at: f"sequence {int(row[at])}, token {int(place[at])}: slot")
    inside = place % page_size
    first = slots[torch.arange(slots.shape[0]) - inside]
    torn = (slots != first + inside) | (first % page_size != 0)
    if bool(torn.any()):
        at = int(torn.nonzero()[0])
        message = (
            f"sequence {int(row[at])}, token {int(place[at])}: slot {int(slots[at])} is not where a page of "
            f"{page_size} tokens would have it"
        )
        raise fault("K545", message, "pass the slots themselves, with pages of one token")
    table = torch.full((counts.shape[0], pages(most(counts), page_size)), -1, dtype=torch.int32)
    starts = inside == 0
    table[row[starts], place[starts] // page_size] = (slots[starts] // page_size).int()
    return table


def slots_of(block_table: Tensor, seq_lens: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """(kv_indptr, kv_indices) of a block table, in token slots, int32. The inverse of `block_table_of`.

    Raises KgenError (K541) for a length that is negative or past the table."""
    lengths = seq_lens.long()
    room = block_table.shape[1] * block_size
    for row, length in enumerate(lengths.tolist()):
        if not 0 <= length <= room:
            raise fault("K541", f"sequence {row} has {length} tokens; its row of the table holds {room}")
    rows, place = rows_and_places(lengths)
    slots = block_table.long()[rows, place // block_size] * block_size + place % block_size
    return running(lengths).int(), slots.int()
