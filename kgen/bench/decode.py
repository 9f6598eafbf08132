"""`kgen bench decode`: paged_attention against the memory's own speed and against torch.

In every round the kernel, a loop that reads the same pages in the same table order, a plain streaming
read and torch's ways of doing the work (on keys and values that are already contiguous) run in
turn. Before anything is timed the kernel's result is compared with the float64 oracle.
GB/s counts the bytes of the keys and values, 1e9 to the GB.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.bench.ceiling import Ceiling, ceiling
from kgen.bench.measure import Contender, Spread, alternate, ratios, spread
from kgen.bench.peers import PEERS, Peer
from kgen.bench.pool import Pool, Shape, draw_pool
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.load import load_catalog
from kgen.testing import tolerance
from kgen.testing.attention import logit_size

DEFAULTS: Mapping[str, Any] = {
    "batch": 8,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "context": 4096,
    "block_size": (16, 64),
    "dtype": ("bf16", "f32"),
    "layout": ("bhsd",),
    "threads": None,
    "rounds": 20,
    "reuse_kv_times": None,
    "partition_size": None,
}
"""Options and what they are when not given; block_size, dtype and layout take several values."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One measured shape. `peers` are seconds by name; `speedup` compares with the best of them."""

    variant: str
    shape: Shape
    seconds: Spread
    of_ceiling: Spread
    ceiling_seconds: float
    stream_seconds: float
    peers: Mapping[str, Spread]
    speedup: Spread

    def json(self) -> dict[str, Any]:
        """The fields a program reads; bytes of KV per second in GB/s."""
        return {
            "op": "paged_attention",
            "variant": self.variant,
            "shape": self.shape.json(),
            "seconds": self.seconds.median,
            "gbps": self.gbps(self.seconds.median),
            "ceiling_gbps": self.gbps(self.ceiling_seconds),
            "of_ceiling": self.of_ceiling.median,
            "stream_gbps": self.gbps(self.stream_seconds),
            "peers": {
                name: {"seconds": peer.median, "ratio": peer.median / self.seconds.median}
                for name, peer in self.peers.items()
            },
            "spread": {
                "seconds": [self.seconds.low, self.seconds.high],
                "of_ceiling": [self.of_ceiling.low, self.of_ceiling.high],
                "best_peer_ratio": [self.speedup.low, self.speedup.median, self.speedup.high],
            },
        }

    def gbps(self, seconds: float) -> float:
        return self.shape.kv_bytes / seconds / 1e9


def run(args: Mapping[str, Any], progress: Progress = lambda line: None) -> list[Row]:
    """Measure every combination of the listed options; see DEFAULTS. `progress` hears what comes next.

    Raises KgenError where a call has no kernel, an option is unknown, or a result is wrong (K581).
    """
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    rows = []
    for dtype, layout, block_size in itertools.product(
        *(_several(options[name]) for name in ("dtype", "layout", "block_size"))
    ):
        threads = options["threads"] or torch.get_num_threads()
        names = ("batch", "heads", "kv_heads", "head_dim", "context")
        shape = Shape(
            **{name: int(options[name]) for name in names},
            block_size=int(block_size),
            layout=layout,
            dtype=dtype,
            threads=threads,
        )
        progress(f"{dtype} {layout} block_size {block_size}")
        with using_threads(threads):
            rows.append(measure(shape, options))
    return rows


def measure(shape: Shape, options: Mapping[str, Any]) -> Row:
    """Check, then time, one shape."""
    pool = draw_pool(shape, load_catalog().layouts[shape.layout])
    forced = {name: options[name] for name in ("reuse_kv_times", "partition_size")}
    decode = Decode(pool, forced)
    variant = decode.check()
    times = alternate(contenders(decode, ceiling(shape.threads)), int(options["rounds"]))
    own = times.pop("kernel")
    pages, stream = times.pop("pages"), times.pop("stream")
    best = [min(one) for one in zip(*times.values(), strict=True)]
    return Row(
        variant=variant,
        shape=shape,
        seconds=spread(own),
        of_ceiling=spread(ratios(own, pages)),
        ceiling_seconds=spread(pages).median,
        stream_seconds=spread(stream).median,
        peers={name: spread(one) for name, one in times.items()},
        speedup=spread(ratios(own, best)),
    )


class Decode:
    """Calls of paged_attention over the tables of a pool."""

    def __init__(self, pool: Pool, forced: Mapping[str, int | None]) -> None:
        self.pool = pool
        self.scale = pool.shape.head_dim**-0.5
        self.out = torch.empty_like(pool.q)
        self.forced = forced

    def __call__(self, number: int) -> Tensor:
        pool = self.pool
        ops.paged_attention(
            pool.q,
            pool.k_cache,
            pool.v_cache,
            pool.tables[number],
            pool.seq_lens,
            softmax_scale=self.scale,
            max_seq_len=pool.shape.context,
            layout=pool.layout.name,
            out=self.out,
            reuse_kv_times=self.forced.get("reuse_kv_times"),
            partition_size=self.forced.get("partition_size"),
        )
        return self.out

    def check(self) -> str:
        """The name of the kernel that runs. Raises KgenError (K581) where its result is not the
        oracle's, within the bounds of `kgen.testing.tolerance`."""
        before = ops.dispatcher().calls()
        got = self(0).double()
        name = _launched(before)
        k, v = self.pool.contiguous(0)
        for row in range(self.pool.shape.batch):
            exact, bound = self._oracle(self.pool.q[row], k[row].transpose(0, 1), v[row].transpose(0, 1))
            if not bool(((got[row] - exact).abs() <= bound).all()):
                message = f"row {row} of {name} differs from the oracle; nothing was timed"
                raise KgenError(Diagnostic("K581", message, hint="run `kgen test` on the build"))
        return name

    def _oracle(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        row = q.unsqueeze(0)
        exact, _ = reference.attention(row, k, v, self.scale, mask=None)
        magnitude, _ = reference.attention(row, k, v.abs(), self.scale, mask=None)
        size = logit_size(q, k, self.scale)
        relative = tolerance.weight_error(q.shape[-1], k.shape[0], size).unsqueeze(-1)
        dtype = self.out.dtype
        weights = tolerance.ROUNDOFF[dtype] if self.out.is_cuda else 0.0
        bound = tolerance.output_bound(exact[0], relative, magnitude[0], dtype, weights=weights)
        return exact[0], bound


def contenders(decode: Decode, loops: Ceiling) -> dict[str, Contender]:
    """Everything that takes part in a round, each on its own rotation of the tables."""
    pool, shape = decode.pool, decode.pool.shape
    turn = pool.rotation()
    gathered = [pool.contiguous(number) for number in range(len(pool.tables))]
    found: dict[str, Contender] = {
        "kernel": lambda: decode(next(turn)),
        "pages": lambda: loops.pages(pool, next(turn)),
        "stream": lambda: loops.stream(pool.k_cache, shape.kv_bytes),
    }
    for name, peer in PEERS.items():
        found[name] = _peer_call(peer, pool, gathered, turn, decode.scale)
    return found


def _peer_call(
    peer: Peer, pool: Pool, gathered: Sequence[tuple[Tensor, Tensor]], turn: Iterator[int], scale: float
) -> Contender:
    return lambda: peer(pool.q, *gathered[next(turn)], scale)


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """torch and the kernels on `count` threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _launched(before: Mapping[str, int]) -> str:
    """The kernel launched since."""
    after = ops.dispatcher().calls()
    return next(name for name, count in after.items() if count != before.get(name, 0))


def _several(value: object) -> Sequence[Any]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
