"""Hugging Face transformers on kgen: a paged KV cache and an attention function.

    register()                                       # once
    model.set_attn_implementation("kgen")
    cache = PagedCache(model.config, num_sequences=4, max_tokens=1024)
    model.generate(**inputs, past_key_values=cache)  # sequences of one length
    cache.plan([12, 7, 1, 30])                       # or rows of any length, packed in one row

Every token that attends is one row of `paged_attention`: its own query, the page table of its
sequence, and a length that ends at itself, which is causal attention. A decode step is one row a
sequence; a prefill is one row a prompt token.

A model hands the cache its new keys and values, and the cache hands back where they now are: the
`Pages` that `attention` receives in place of tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, Cache

from kgen import ops
from kgen.diagnostics import Diagnostic, KgenError
from kgen.layout import Layout, Sizes, shape

if TYPE_CHECKING:
    from transformers import PretrainedConfig

NAME = "kgen"


@dataclass(frozen=True)
class Rows:
    """Where the rows of one forward pass are: a row is one token of one sequence.

    slots: [rows] int64, where each row's key and value go. table: [rows, pages] int32.
    lengths: [rows] int32, tokens a row attends to, itself included. limit: an upper bound of them, a
    whole number of pages, so that a call's plan is good for as many steps as a page has tokens.
    shape: (batch, tokens) as the model sees the pass.
    """

    slots: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    limit: int
    shape: tuple[int, int]


@dataclass(frozen=True)
class Pages:
    """What `PagedCache.update` returns instead of tensors: a layer's pages and the rows to read."""

    k_cache: torch.Tensor
    v_cache: torch.Tensor
    rows: Rows
    layout: str


def register() -> None:
    """Make `attn_implementation="kgen"` known to transformers."""
    AttentionInterface.register(NAME, attention)


def cache_argument(model: torch.nn.Module) -> str:
    """The name under which a model takes its cache: `cache`, or `past_key_values` in older releases."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: Pages,
    value: Pages,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function transformers calls.

    query: [batch, num_heads, tokens, head_dim]; key and value: the pages of `PagedCache`.
    Returns the output as [batch, tokens, num_heads, head_dim].
    Raises KgenError for what these kernels do not do: dropout, or keys outside a `PagedCache`.
    """
    if not isinstance(key, Pages):
        raise KgenError(Diagnostic("K551", "attention 'kgen' needs its keys in a PagedCache", hint=_USE))
    if dropout:
        raise KgenError(Diagnostic("K552", "attention 'kgen' has no dropout", hint="call model.eval()"))
    batch, num_heads, tokens, head_dim = query.shape
    rows = query.transpose(1, 2).reshape(batch * tokens, num_heads, head_dim)
    out = ops.paged_attention(
        rows.to(key.k_cache.dtype),
        key.k_cache,
        key.v_cache,
        key.rows.table,
        key.rows.lengths,
        softmax_scale=head_dim**-0.5 if scaling is None else scaling,
        max_seq_len=key.rows.limit,
        layout=key.layout,
    )
    return out.to(query.dtype).view(batch, tokens, num_heads, head_dim), None


_USE = "pass past_key_values=PagedCache(model.config, ...) and keep use_cache on"


class PagedCache(Cache):  # type: ignore[misc]
    """The KV cache of several sequences in kgen's pages.

    num_sequences, max_tokens: how many sequences, and how many tokens each may grow to.
    block_size: tokens in a page. layout: a layout of specs/layouts.yaml. dtype: of the pages.

    Pages are handed out one at a time, as sequences grow, so that those of different sequences
    lie among each other. Raises KgenError where a sequence outgrows max_tokens.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        *,
        num_sequences: int,
        max_tokens: int,
        layout: Layout,
        block_size: int = 16,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(layers=[])
        self.layout, self.block_size, self.max_tokens = layout, block_size, max_tokens
        pages = -(-max_tokens // block_size)
        self.table = torch.zeros(num_sequences, pages, dtype=torch.int32)
        self._lengths = [0] * num_sequences
        self._free = list(range(num_sequences * pages - 1, -1, -1))
        self._rows: Rows | None = None
        self._planned = False
        self.pages = [
            _new_pages(config, layout, num_sequences * pages, block_size, dtype)
            for _ in range(config.num_hidden_layers)
        ]

    def plan(self, new_tokens: Sequence[int]) -> torch.Tensor:
        """Say how many tokens each sequence brings to the next forward pass, packed one sequence
        after the other in a single batch row; 0 leaves a sequence out.

        Returns the positions [1, sum(new_tokens)] int64, to give to the model as position_ids.
        """
        self._rows = self._place(list(enumerate(new_tokens)), (1, sum(new_tokens)))
        self._planned = True
        return (self._rows.lengths.long() - 1)[None]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Pages, Pages]:
        """Write the new keys and values, [batch, num_kv_heads, tokens, head_dim] each, into the
        pages of a layer. Returns the pages, twice."""
        batch, heads, tokens, head_dim = key_states.shape
        if layer_idx == 0 and not self._planned:
            self._rows = self._place([(row, tokens) for row in range(batch)], (batch, tokens))
        self._planned = False
        rows = self._rows
        if rows is None or rows.shape != (batch, tokens):
            planned = None if rows is None else rows.shape
            message = f"the pass has (batch, tokens) {(batch, tokens)}, but {planned} was planned"
            raise KgenError(Diagnostic("K553", message))
        k_cache, v_cache = self.pages[layer_idx]
        flat = (batch * tokens, heads, head_dim)
        ops.reshape_and_cache(
            key_states.transpose(1, 2).reshape(flat).to(k_cache.dtype),
            value_states.transpose(1, 2).reshape(flat).to(v_cache.dtype),
            k_cache,
            v_cache,
            rows.slots,
            layout=self.layout.name,
        )
        pages = Pages(k_cache, v_cache, rows, self.layout.name)
        return pages, pages

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens of the longest sequence, those of a planned pass not counted."""
        return max(self._lengths)

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """Tokens a sequence may grow to."""
        return self.max_tokens

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """(kv_length, offset) for transformers' own masks; these kernels read lengths instead."""
        return self.get_seq_length() + query_length, 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages of all layers."""
        return sum(t.numel() * t.element_size() for pair in self.pages for t in pair)

    def _place(self, new_tokens: Iterable[tuple[int, int]], shape: tuple[int, int]) -> Rows:
        """Give pages to the new tokens of each (sequence, count), and describe them as rows."""
        sequence_of: list[int] = []
        positions: list[int] = []
        for sequence, count in new_tokens:
            start = self._lengths[sequence]
            self._grow(sequence, start + count)
            sequence_of += [sequence] * count
            positions += range(start, start + count)
        place, row = torch.tensor(positions), torch.tensor(sequence_of)
        pages = max(positions) // self.block_size + 1
        table = self.table[row, :pages]
        block = self.table[row, place // self.block_size].long()
        slots = block * self.block_size + place % self.block_size
        return Rows(slots, table, (place + 1).int(), pages * self.block_size, shape)

    def _grow(self, sequence: int, length: int) -> None:
        if length > self.max_tokens:
            message = f"sequence {sequence} would hold {length} tokens, but max_tokens is {self.max_tokens}"
            raise KgenError(Diagnostic("K554", message))
        size = self.block_size
        held, needed = -(-self._lengths[sequence] // size), -(-length // size)
        for page in range(held, needed):
            self.table[sequence, page] = self._free.pop()
        self._lengths[sequence] = length


def _new_pages(
    config: PretrainedConfig, layout: Layout, num_blocks: int, block_size: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """A K and a V cache tensor. Their memory is not cleared: no kernel reads what is not written."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    sizes = Sizes(num_blocks, config.num_key_value_heads, block_size, head_dim, dtype.itemsize)
    if layout.k is None or layout.v is None:
        raise KgenError(Diagnostic("K555", f"layout {layout.name} is not wholly known: {layout.because}"))
    k, v = (torch.empty(shape(order, sizes), dtype=dtype) for order in (layout.k, layout.v))
    return k, v
