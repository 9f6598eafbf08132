"""The batch of extend_attention: its arrays, from slots, from a block table or as they come."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kgen.metadata.checks import (
    POOL,
    SEPARATE,
    bound,
    check_dtype,
    check_kinds,
    check_pointer,
    check_range,
    fault,
    pages,
    rows_and_places,
    running,
)


@dataclass(frozen=True)
class ExtendBatch:
    """A batch as extend_attention takes it; all tensors on one device, each int32 or int64.

    extend_seq_lens, seq_lens, extend_prefix_lens, extend_start_loc: [num_seqs], in tokens; the last is
    where a sequence's rows begin. qo_indptr, kv_indptr: [num_seqs + 1]. kv_indices: [entries].
    total_q: rows of queries. max_extend_len, max_seq_len: upper bounds known to the host, in tokens.
    """

    extend_seq_lens: Tensor
    seq_lens: Tensor
    extend_prefix_lens: Tensor
    qo_indptr: Tensor
    kv_indptr: Tensor
    kv_indices: Tensor
    extend_start_loc: Tensor
    block_size: int
    convention: str
    total_q: int
    max_extend_len: int
    max_seq_len: int

    @property
    def num_seqs(self) -> int:
        return self.seq_lens.shape[0]

    @functools.cached_property
    def is_int32(self) -> bool:
        """Whether kernels read the arrays as they are."""
        return all(getattr(self, name).dtype is torch.int32 for name in _ARRAYS)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> ExtendBatch:
        """The batch on another device, or in another dtype. Raises KgenError (K542) for the dtype."""
        wanted = self.seq_lens.dtype if dtype is None else dtype
        check_dtype(wanted)
        moved = {name: getattr(self, name).to(device, wanted) for name in _ARRAYS}
        return replace(self, **moved)


_ARRAYS = (
    "extend_seq_lens",
    "seq_lens",
    "extend_prefix_lens",
    "qo_indptr",
    "kv_indptr",
    "kv_indices",
    "extend_start_loc",
)


def from_slots(
    prefix_slots: Sequence[Sequence[int]],
    new_slots: Sequence[Sequence[int]],
    *,
    convention: str = POOL,
    num_slots: int | None = None,
    dtype: torch.dtype = torch.int32,
    device: torch.device | str = "cpu",
) -> ExtendBatch:
    """A batch from the token slots of each sequence: those of its prefix, and those of its new tokens.

    In the SEPARATE convention only the number of new slots counts. Raises KgenError (K540 to K543).
    """
    if len(prefix_slots) != len(new_slots):
        message = f"{len(prefix_slots)} sequences have a prefix, {len(new_slots)} have new tokens"
        raise fault("K541", message, "give both for every sequence, an empty list where there are none")
    both = zip(prefix_slots, new_slots, strict=True)
    rows = [[*old, *(new if convention == POOL else ())] for old, new in both]
    return from_arrays(
        running(torch.tensor([len(new) for new in new_slots], dtype=torch.int64)),
        running(torch.tensor([len(row) for row in rows], dtype=torch.int64)),
        torch.tensor([slot for row in rows for slot in row], dtype=torch.int64),
        convention=convention,
        num_blocks=num_slots,
    ).to(device, dtype)


def from_block_table(
    block_table: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    block_size: int,
    *,
    num_blocks: int | None = None,
    max_extend_len: int | None = None,
    max_seq_len: int | None = None,
    total_q: int | None = None,
) -> ExtendBatch:
    """A batch whose keys all lie in the pages of a block table [num_seqs, pages].

    The table is not copied where its rows lie side by side. The bounds must be given where the arrays are
    on a device. Raises KgenError (K540 to K544).
    """
    if block_table.dim() != 2 or block_table.shape[0] != seq_lens.shape[0]:
        found = list(block_table.shape)
        message = f"block_table has shape {found}; seq_lens speaks of {seq_lens.shape[0]} sequences"
        raise fault("K541", message, "a block table has a row for each sequence")
    rows, width = block_table.shape
    kv_indptr = torch.arange(rows + 1, device=block_table.device, dtype=block_table.dtype) * width
    return from_arrays(
        running(extend_seq_lens),
        kv_indptr,
        block_table.reshape(-1),
        seq_lens=seq_lens,
        block_size=block_size,
        num_blocks=num_blocks,
        max_extend_len=max_extend_len,
        max_seq_len=max_seq_len,
        total_q=total_q,
    )


def from_arrays(
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    *,
    seq_lens: Tensor | None = None,
    convention: str = POOL,
    block_size: int = 1,
    num_blocks: int | None = None,
    max_extend_len: int | None = None,
    max_seq_len: int | None = None,
    total_q: int | None = None,
) -> ExtendBatch:
    """A batch from its index arrays. seq_lens, [num_seqs] in tokens with the new ones, follows from the
    others where a page is one token. num_blocks: pages in the pool, to hold indices against.

    max_extend_len, max_seq_len, total_q: must be given where the arrays are on a device; computed else.
    Raises KgenError: K540 a pointer array that is none, K541 lengths that disagree, K542 a dtype or
    convention that is none, K543 an index outside the pool, K544 a bound that is missing or too low.
    """
    check_kinds(convention, qo_indptr, kv_indptr, kv_indices, seq_lens)
    if seq_lens is None:
        if block_size != 1:
            message = f"with pages of {block_size} tokens kv_indptr does not say how long a sequence is"
            raise fault("K541", message, "give seq_lens")
        seq_lens = _lengths(qo_indptr, kv_indptr, convention)
    dtype, extend = qo_indptr.dtype, qo_indptr.diff()
    same = seq_lens.shape == extend.shape  # else the check below says so
    batch = ExtendBatch(
        extend_seq_lens=extend,
        seq_lens=seq_lens.to(dtype),
        extend_prefix_lens=(seq_lens - extend).to(dtype) if same else extend,
        qo_indptr=qo_indptr,
        kv_indptr=kv_indptr,
        kv_indices=kv_indices,
        extend_start_loc=qo_indptr[:-1],
        block_size=block_size,
        convention=convention,
        total_q=bound("total_q", total_q, qo_indptr, exact=True),
        max_extend_len=bound("max_extend_len", max_extend_len, extend),
        max_seq_len=bound("max_seq_len", max_seq_len, seq_lens),
    )
    if qo_indptr.device.type == "cpu":
        _check_host(batch, num_blocks)
    return batch


def _lengths(qo_indptr: Tensor, kv_indptr: Tensor, convention: str) -> Tensor:
    """The lengths that follow from pages of one token."""
    if qo_indptr.shape != kv_indptr.shape:
        found = f"qo_indptr of {qo_indptr.shape[0] - 1}, kv_indptr of {kv_indptr.shape[0] - 1}"
        raise fault("K541", f"the arrays speak of different numbers of sequences: {found}")
    return kv_indptr.diff() + qo_indptr.diff() if convention == SEPARATE else kv_indptr.diff()


def _check_host(batch: ExtendBatch, num_blocks: int | None) -> None:
    """That the arrays of a batch agree, and that every index that is used lies in the pool."""
    check_pointer("qo_indptr", batch.qo_indptr, None)
    check_pointer("kv_indptr", batch.kv_indptr, batch.kv_indices.shape[0])
    counts = {
        "qo_indptr": batch.qo_indptr.shape[0] - 1,
        "kv_indptr": batch.kv_indptr.shape[0] - 1,
        "seq_lens": batch.num_seqs,
    }
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} of {count}" for name, count in counts.items())
        raise fault("K541", f"the arrays speak of different numbers of sequences: {listed}")
    rows = torch.stack([batch.seq_lens, batch.extend_seq_lens, batch.kv_indptr.diff()], dim=1)
    for row, (length, new, held) in enumerate(rows.tolist()):
        _check_row(batch, row, length, new, held)
    _check_used(batch, num_blocks)


def _check_row(batch: ExtendBatch, row: int, length: int, new: int, held: int) -> None:
    separate = batch.convention == SEPARATE
    if length < 0 or (separate and length < new):
        least = f"its {new} new tokens are among them" if separate else "a length is not negative"
        raise fault("K541", f"sequence {row} has {length} tokens in all", least)
    tokens = length - new if separate else length
    needed = pages(tokens, batch.block_size)
    if held < needed or (batch.block_size == 1 and held != needed):
        what = "slots" if batch.block_size == 1 else f"pages of {batch.block_size} tokens"
        kind = "its prefix" if separate else "all its tokens, the new ones too"
        message = f"sequence {row} has {held} {what}; {kind} need {needed}"
        other = POOL if separate else SEPARATE
        raise fault(
            "K541", message, f"the convention '{other}' counts otherwise" if batch.block_size == 1 else None
        )


def _check_used(batch: ExtendBatch, num_blocks: int | None) -> None:
    tokens = batch.extend_prefix_lens if batch.convention == SEPARATE else batch.seq_lens
    used = -(-tokens.long() // batch.block_size)
    row, place = rows_and_places(used)
    indices = batch.kv_indices.long()[batch.kv_indptr.long()[row] + place]
    what = "slot" if batch.block_size == 1 else "block id"
    check_range(indices, num_blocks, lambda at: f"sequence {int(row[at])}, entry {int(place[at])}: {what}")
