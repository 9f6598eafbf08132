"""The loops of read_gpu.cpp: what a GPU's memory gives when nothing is computed."""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from kgen import paths
from kgen.bench.pool import Pool
from kgen.build.shared import build_for_target
from kgen.dispatch import gpu
from kgen.dispatch.driver import Driver, Kernel
from kgen.manifest import ABI_VERSION
from kgen.render.headers import headers_of
from kgen.render.origins import strip
from kgen.render.template import expand_template
from kgen.spec.load import load_catalog
from kgen.spec.model import TargetSpec

SOURCE = Path(__file__).with_name("read_gpu.cpp")
PAGES, STREAM = "kgen_read_pages", "kgen_read_stream"
THREADS = 256
PIECE_BYTES = 4096
"""What a wave reads before it looks for more."""
BLOCKS = 4
"""Of the grid, for each multiprocessor."""


@dataclass(frozen=True)
class GpuCeiling:
    """The loaded loops on one device. They run on torch's current stream, and nothing waits."""

    driver: Driver
    kernels: Mapping[str, Kernel]
    device: int
    wave: int
    blocks: int
    sums: Tensor  # i32, one for each wave of the grid
    piece_bytes: int = PIECE_BYTES

    def stream(self, data: Tensor, nbytes: int) -> None:
        """Read the first `nbytes` of a contiguous tensor from front to back."""
        words = stream_words(data, nbytes, self.sums, self.blocks, self.piece_bytes)
        self._start(STREAM, (self.blocks, 1, 1), words)

    def pages(self, pool: Pool, number: int) -> None:
        """Read the pages of K and V that a table names, in its order, and nothing else."""
        half = self.blocks // 2
        words = page_words(pool, number, self.sums, half, self.piece_bytes)
        self._start(PAGES, (half, 2, 1), words)

    def total(self) -> int:
        """The 32-bit words read by the last call, xored; waits for it."""
        return xored(self.sums)

    def _start(self, symbol: str, grid: tuple[int, int, int], words: Sequence[int]) -> None:
        block = (ctypes.c_int64 * len(words))(*words)
        with self.driver.on(self.device):
            stream = gpu.stream_lookup()(self.device)
            self.driver.launch(self.kernels[symbol], grid, THREADS, 0, block, stream)


def page_words(pool: Pool, number: int, sums: Tensor, blocks: int, piece_bytes: int) -> tuple[int, ...]:
    """The arguments (`Args` of read_gpu.cpp) to read the pages of a table."""
    table = pool.tables[number]
    caches = pool.k_cache.data_ptr(), pool.v_cache.data_ptr()
    sizes = table.numel(), pool.page_bytes // 4, *_pieces(pool.page_bytes, piece_bytes)
    return _words(*caches, table.data_ptr(), sums.data_ptr(), *sizes, blocks)


def stream_words(
    data: Tensor, nbytes: int, sums: Tensor, blocks: int, piece_bytes: int = PIECE_BYTES
) -> tuple[int, ...]:
    """The arguments to read a span."""
    sizes = 1, nbytes // 4, *_pieces(nbytes, piece_bytes)
    return _words(data.data_ptr(), 0, 0, sums.data_ptr(), *sizes, blocks)


def _pieces(nbytes: int, piece_bytes: int) -> tuple[int, int]:
    """Words in a piece, and pieces in so many bytes."""
    return piece_bytes // 4, -(-nbytes // piece_bytes)


def _words(*arguments: int) -> tuple[int, ...]:
    return (ABI_VERSION, 3 + len(arguments), 0, *arguments)


def xored(sums: Tensor) -> int:
    return int(functools.reduce(operator.xor, sums.tolist(), 0))


def gpu_ceiling(device: str) -> GpuCeiling:
    """The loops on a GPU. Raises KgenError (K4xx) where they cannot be compiled, K526 for its driver."""
    index = torch.device(device).index or 0
    target = load_catalog().targets[gpu.arch_of(device)]
    image = build(target).read_bytes()
    driver = gpu.driver()
    blocks = BLOCKS * torch.cuda.get_device_properties(device).multi_processor_count
    return GpuCeiling(
        driver=driver,
        kernels={symbol: driver.load(image, symbol, index) for symbol in (PAGES, STREAM)},
        device=index,
        wave=target.wave,
        blocks=blocks,
        sums=torch.zeros(blocks * THREADS // target.wave, dtype=torch.int32, device=device),
    )


def build(target: TargetSpec, *, simulated: bool = False) -> Path:
    """The loops compiled for a GPU target, or for its simulator."""
    names = {"target": target, "dynamic_lds": 0, "boxes": ()}
    prelude, _ = strip(expand_template(paths.templates_dir(), "gpu/target.j2", names))
    text = f"#define KGEN_ABI {ABI_VERSION}\n{prelude}{SOURCE.read_text(encoding='utf-8')}"
    name = "bench_read_sim" if simulated else "bench_read"
    headers = headers_of(text, paths.include_dir())
    symbol = f"{PAGES}_sim" if simulated else PAGES
    return build_for_target(text, name, target, symbol=symbol, headers=headers, simulated=simulated)
