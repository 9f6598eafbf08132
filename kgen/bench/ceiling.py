"""The loops of read.cpp: what the memory gives when nothing is computed."""

from __future__ import annotations

import ctypes
import functools
import operator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from kgen.bench.pool import Pool
from kgen.build.shared import build_shared
from kgen.dispatch.threads import Runtime, runtime
from kgen.spec.load import load_catalog
from kgen.targets.host import best_target, host_features

SOURCE = Path(__file__).with_name("read.cpp")
SYMBOL = "kgen_read_pages"


@dataclass(frozen=True)
class Ceiling:
    """The loaded loops, run by `threads` threads of the process's OpenMP runtime."""

    library: ctypes.CDLL
    openmp: Runtime
    threads: int

    def stream(self, data: Tensor, nbytes: int) -> int:
        """Read the first `nbytes` of a contiguous tensor from front to back; their 64-bit words, xored."""
        return self._call("kgen_read_stream", data.data_ptr(), nbytes)

    def pages(self, pool: Pool, number: int, *, ahead: bool = False) -> int:
        """Read the pages of K and V that a table names, in its order, and nothing else; xored. With `ahead`
        every cache line is asked for some time before it is read."""
        table, size = pool.tables[number], pool.page_bytes
        k, v = pool.k_cache.data_ptr(), pool.v_cache.data_ptr()
        name = f"{SYMBOL}_ahead" if ahead else SYMBOL
        return self._call(name, k, v, table.data_ptr(), table.numel(), size, size)

    def _call(self, name: str, *words: int) -> int:
        sums = torch.zeros(max(self.threads, 1), dtype=torch.int64)
        head = (self.openmp.parallel, self.openmp.thread_num, self.threads, sums.data_ptr())
        block = (ctypes.c_int64 * (len(head) + len(words)))(*head, *words)
        self.library[name](block)
        return int(functools.reduce(operator.xor, sums.tolist()))


def ceiling(threads: int) -> Ceiling:
    """The loops for this host. Raises KgenError (K4xx) where they cannot be compiled."""
    return Ceiling(_library(), runtime(), threads)


@functools.cache
def _library() -> ctypes.CDLL:
    catalog = load_catalog()
    target = catalog.targets[best_target(catalog.targets, host_features())]
    path = build_shared(SOURCE.read_text(encoding="utf-8"), "bench_read", target.flags, symbol=SYMBOL)
    return ctypes.CDLL(str(path))
