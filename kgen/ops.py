"""The operators of kgen on torch tensors; see each for shapes and units.

from kgen import ops
out = ops.paged_attention(q, k_cache, v_cache, block_table, seq_lens, max_seq_len=4096)
"""

from __future__ import annotations

from kgen import api
from kgen.dispatch.calls import check, dispatcher, install, reset, workspace_size
from kgen.dispatch.extend import extend_attention, prefix_decode
from kgen.dispatch.ops import (
    copy_blocks,
    merge_state,
    merge_states,
    paged_attention,
    reshape_and_cache,
    swap_blocks,
)

install(api.compiler)

__all__ = [
    "check",
    "copy_blocks",
    "dispatcher",
    "extend_attention",
    "merge_state",
    "merge_states",
    "paged_attention",
    "prefix_decode",
    "reset",
    "reshape_and_cache",
    "swap_blocks",
    "workspace_size",
]
