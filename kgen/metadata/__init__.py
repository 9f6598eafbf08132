"""The arrays that describe a ragged batch to extend_attention: built, converted and checked in one place.

A sequence b brings `extend_seq_lens[b]` new tokens, which are its queries, behind a prefix of
`extend_prefix_lens[b]` tokens that were computed before; together they are `seq_lens[b]`. Queries and outputs
of all sequences lie behind each other, those of b from `qo_indptr[b]` to before `qo_indptr[b + 1]`. Its keys
are found through `kv_indices[kv_indptr[b] : kv_indptr[b + 1]]`: pages of `block_size` tokens, which with a
block_size of 1 are token slots.

Two conventions are in use. POOL: the new keys are in the pool already, and kv_indptr counts all keys.
SEPARATE: they are still tensors of their own, row for row like the queries, and kv_indptr counts prefixes.

What is on the host is checked when a batch is made. Of arrays on a device nothing is read, since a
call may not wait for it; the kernels check those themselves.
"""

from __future__ import annotations

from kgen.metadata.batch import ExtendBatch, from_arrays, from_block_table, from_slots
from kgen.metadata.checks import CONVENTIONS, POOL, SEPARATE
from kgen.metadata.tables import block_table_of, slots_of

__all__ = [
    "CONVENTIONS",
    "POOL",
    "SEPARATE",
    "ExtendBatch",
    "block_table_of",
    "from_arrays",
    "from_block_table",
    "from_slots",
    "slots_of",
]
