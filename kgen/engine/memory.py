"""The memory of an engine: pages on the device and on the host, and who owns them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kgen.layout import Layout
from kgen.runtime import (
    BlockManager,
    KVPool,
    KVShape,
    PagePool,
    RadixCache,
    SchedulerConfig,
    StepPlan,
)


@dataclass(frozen=True)
class EngineConfig:
    """`num_blocks` pages of `block_size` tokens in `layout`, of `dtype` (None: the model's); `host_blocks`
    more in host memory to swap to. `prefix_cache`: keep the KV of prompts and answers for later ones,
    evicted by `policy`. `check`: verify all structures after every operation (None: as KGEN_CHECK says)."""

    layout: Layout
    num_blocks: int
    block_size: int = 16
    dtype: torch.dtype | None = None
    host_blocks: int = 0
    prefix_cache: bool = True
    policy: str = "lru"
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    check: bool | None = None


class Memory:
    """`kv`: the tensors; `manager`: their owners; `cache`: prefixes in them, or None."""

    def __init__(self, config: EngineConfig, shape: KVShape, device: torch.device) -> None:
        size, dtype = config.block_size, config.dtype or shape.dtype
        kept = KVShape(shape.num_layers, shape.num_kv_heads, shape.head_dim, dtype)
        self.kv = KVPool(config.layout, kept, config.num_blocks, size, device)
        self.host = KVPool(config.layout, kept, config.host_blocks, size) if config.host_blocks else None
        pool = PagePool(config.num_blocks)
        self.cache = (
            RadixCache(pool, size, policy=config.policy, check=config.check) if config.prefix_cache else None
        )
        self.manager = BlockManager(pool, size, self.cache, host_pages=config.host_blocks, check=config.check)

    def move(self, plan: StepPlan) -> None:
        """The copies of a plan, in the order that it asks for."""
        if self.host is not None:
            self.host.copy_from(self.kv, plan.swap_out)
            self.kv.copy_from(self.host, plan.swap_in)
        self.kv.copy(plan.copies)
