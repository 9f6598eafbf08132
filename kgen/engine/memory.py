"""The memory of an engine: pages on the device and on the host, and who owns them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kgen.engine.errors import fault
from kgen.engine.kernels import Scales
from kgen.layout import Layout
from kgen.runtime import (
    FLOAT8,
    BlockManager,
    KVPool,
    KVScales,
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
    evicted by `policy`. `check`: verify all structures after every operation (None: as KGEN_CHECK says).
    `scales`: of pages of 8-bit floats, see `kgen.engine.calibrate`."""

    layout: Layout
    num_blocks: int
    block_size: int = 16
    dtype: torch.dtype | None = None
    host_blocks: int = 0
    prefix_cache: bool = True
    policy: str = "lru"
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    check: bool | None = None
    scales: KVScales | None = None


class Memory:
    """`kv`: the tensors; `manager`: their owners; `cache`: prefixes in them, or None. Raises K803 for 8-bit
    floats without scales, and scales without those."""

    def __init__(self, config: EngineConfig, shape: KVShape, device: torch.device) -> None:
        size, dtype = config.block_size, config.dtype or shape.dtype
        kept = KVShape(shape.num_layers, shape.num_kv_heads, shape.head_dim, dtype)
        self._scales = _checked(config.scales, kept, device)
        self.kv = KVPool(config.layout, kept, config.num_blocks, size, device)
        self.host = KVPool(config.layout, kept, config.host_blocks, size) if config.host_blocks else None
        pool = PagePool(config.num_blocks)
        self.cache = (
            RadixCache(pool, size, policy=config.policy, check=config.check) if config.prefix_cache else None
        )
        self.manager = BlockManager(pool, size, self.cache, host_pages=config.host_blocks, check=config.check)

    def scales(self, layer: int) -> Scales | None:
        """Those of one layer's keys and values; None where codes are values."""
        return None if self._scales is None else self._scales.layer(layer)

    def move(self, plan: StepPlan) -> None:
        """The copies of a plan, in the order that it asks for."""
        if self.host is not None:
            self.host.copy_from(self.kv, plan.swap_out)
            self.kv.copy_from(self.host, plan.swap_in)
        self.kv.copy(plan.copies)


def _checked(scales: KVScales | None, kv: KVShape, device: torch.device) -> KVScales | None:
    if kv.dtype in FLOAT8 and scales is None:
        raise fault("K803", f"KV of {kv.dtype} needs scales", "find them with kgen.engine.calibrate")
    if kv.dtype not in FLOAT8 and scales is not None:
        raise fault("K803", f"KV of {kv.dtype} has no scales", "scales are for 8-bit floats")
    if scales is None:
        return None
    scales.check(kv.num_layers, kv.num_kv_heads)
    return scales.to(device)
