"""Single published figures, and what comes out when the runtime is made to show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from kgen.paper.contiguous import ContiguousMemory
from kgen.paper.hashing import BlockHashes
from kgen.runtime import BlockManager, Key, KVShape, PagePool, RadixCache, pages_for

LLAMA_13B = KVShape(num_layers=40, num_kv_heads=40, head_dim=128, dtype=torch.float16)
BLOCK_SIZES = (16, 32, 64, 128)


@dataclass(frozen=True)
class Claim:
    """A figure as published, and as found."""

    what: str
    published: float
    found: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.published == self.found


def claims() -> tuple[Claim, ...]:
    """All of them."""
    return (*_reserved(), *_holes(), *_forks(), *_redundant(), *_hits(), *_pages())


def _reserved() -> Iterator[Claim]:
    for used, unused, part in ((150, 1898, 92.7), (200, 1848, 90.2)):
        memory = ContiguousMemory(2048)
        memory.allocate(2048)
        rest = memory.size - memory.num_free - used
        yield Claim(f"{used} tokens in a region of 2,048: unused", unused, rest, "tokens")
        yield Claim("the same, part of the region", part, round(100 * rest / memory.size, 1), "%")


def _holes() -> Iterator[Claim]:
    memory, pool = ContiguousMemory(16), PagePool(16)  # of 1 GB each
    starts = [memory.allocate(2) for _ in range(8)]
    pages = [pool.allocate(2) for _ in range(8)]
    for number in range(0, 8, 2):
        memory.release(starts[number] or 0, 2)
        pool.release(pages[number])
    fits = memory.allocate(3) is not None
    yield Claim("four holes of 2 GB: regions of 3 GB that fit", 0, int(fits), "regions")
    yield Claim("the same in pages: GB given of 3", 3, len(pool.allocate(3)), "GB")


def _forks() -> Iterator[Claim]:
    held, taken, _ = fork(1024, 16, 4)
    yield Claim("four beams of 1,024 tokens, each its own copy", 4096, 4 * 1024, "tokens")
    yield Claim("four beams of 1,024 tokens, forked", 1024, held, "tokens")
    yield Claim("bytes taken by the three forks", 0, taken * LLAMA_13B.token_bytes, "bytes")
    for length, pairs in ((16, 0), (20, 3)):
        copies = fork(length, 16, 4)[2]
        yield Claim(f"pages of 16 copied when four beams go on after {length} tokens", pairs, copies, "pages")


def fork(length: int, block_size: int, beams: int) -> tuple[int, int, int]:
    """A sequence forked into so many: slots that all hold together; those that the forks took; pages copied
    when each appends a token."""
    pool = PagePool(2 * beams + beams * pages_for(length, block_size))
    manager = BlockManager(pool, block_size, watermark=0.0)
    manager.allocate(0, length)
    before = pool.num_free
    for child in range(1, beams):
        manager.fork(0, child)
    held, taken = pool.num_held * block_size, (before - pool.num_free) * block_size
    return held, taken, len(manager.append_slots(range(beams)))


def _redundant() -> Iterator[Claim]:
    shared, count = 3000, 1000
    without, computed = shared * count, shared_prompt(shared, count)
    again = without - shared
    yield Claim("1,000 requests of one 3,000-token prompt: computed again", 2_997_000, again, "tokens")
    yield Claim("the same with a prefix cache", 0, computed - shared, "tokens")


def shared_prompt(shared: int, count: int) -> int:
    """Tokens of a shared prompt that are computed when so many requests begin with it, one after another,
    each with a question of its own."""
    cache = RadixCache(PagePool(shared + 8 * count))
    prompt = np.arange(shared)
    computed = 0
    for number in range(count):
        key = Key.of(np.concatenate([prompt, np.full(8, shared + number)]))
        match = cache.match_prefix(key, len(key) - 1)
        computed += shared - min(match.length, shared)
        lock = cache.lock(match)
        fresh = cache.pool.allocate(len(key) - match.length)
        lock, _ = cache.extend(lock, key.data[4 * match.length :], fresh)
        cache.unlock(lock)
    return computed


def _hits() -> Iterator[Claim]:
    radix, hashed = prefix_hits(45, 16)
    yield Claim("a shared prefix of 45 tokens: hit by token", 45, radix, "tokens")
    yield Claim("the same by hashed blocks of 16", 32, hashed, "tokens")


def prefix_hits(shared: int, block_size: int) -> tuple[int, int]:
    """Tokens that hit when a second, longer prompt shares so many with a first: in a radix tree by token, and
    by hashes of blocks."""
    first, second = (Key.of([*range(shared), *range(start, start + 40)]) for start in (1000, 2000))
    cache, hashes = RadixCache(PagePool(len(first))), BlockHashes(block_size)
    cache.insert(first, cache.pool.allocate(len(first)))
    hashes.store(first.data)
    return cache.probe(second, len(second) - 1).length, hashes.hit(second.data)


def _pages() -> Iterator[Claim]:
    layer = dataclasses.replace(LLAMA_13B, num_layers=1)
    yield Claim("KV of a token of LLaMA-13B in f16", 819_200, LLAMA_13B.token_bytes, "bytes")
    yield Claim("the same, of one layer", 20_480, layer.token_bytes, "bytes")
    for block_size, mib in ((16, 6.25), (128, 50)):
        half = block_size / 2 * LLAMA_13B.token_bytes / 2**20
        yield Claim(f"half a page of {block_size}, unused by a sequence", mib, half, "MiB")
    for block_size, unused in zip(BLOCK_SIZES, (7.5, 15.5, 31.5, 63.5), strict=True):
        what = f"unused slots of a sequence of 1 to 4,096 tokens, pages of {block_size}"
        yield Claim(what, unused, mean_tail(block_size, 4096), "tokens")
    for block_size, entries in zip(BLOCK_SIZES, (256, 128, 64, 32), strict=True):
        manager = BlockManager(PagePool(4096 // block_size), block_size, watermark=0.0)
        manager.allocate(0, 4096)
        columns = manager.block_tables([0]).shape[1]
        yield Claim(f"entries of a block table at 4,096 tokens, pages of {block_size}", entries, columns, "")


def mean_tail(block_size: int, longest: int) -> float:
    """Mean unused slots of the last page over all lengths from 1 to `longest`."""
    lengths = range(1, longest + 1)
    return sum(pages_for(length, block_size) * block_size - length for length in lengths) / longest
