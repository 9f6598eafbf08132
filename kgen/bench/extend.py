"""`kgen bench extend`: extend_attention against the machine's matrix product and against others.

FLOP/s count the pairs of queries and keys that the mask leaves, 4 * head_dim operations each: what is
computed besides does not count. In every round the kernel, a matrix product of the same dtype, and the
peers (torch on keys and values gathered beforehand) run in turn. Rows of the result are compared with the
float64 oracle before anything is timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from kgen import ops
from kgen.bench import kv
from kgen.bench.decode import Progress, using_threads
from kgen.bench.device import Numbered, event_clock, find_device, insisted, recorded
from kgen.bench.extend_peers import PEERS
from kgen.bench.measure import Spread, alternate, ratios, spread, wall_clock
from kgen.bench.pool import Pool, Shape, draw_pool
from kgen.bench.proof import calls, launched, prove_row
from kgen.metadata import from_block_table
from kgen.spec.load import load_catalog
from kgen.testing.memory import DTYPES

DEFAULTS: Mapping[str, Any] = {
    "batch": 1,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "prefix": 3584,
    "extend": 512,
    "block_size": (16,),
    "dtype": ("bf16", "f32"),
    "kv_dtype": (None,),
    "layout": ("bshd",),
    "threads": None,
    "rounds": 10,
    "device": None,
    "arch": None,
}
"""Options and what they are when not given; block_size, layout and both dtypes take several values.
A kv_dtype of None is that of the queries."""

MATMUL_SIZE = {"cpu": 2048, "cuda": 8192}
ROWS = 8
"""Queries of each sequence that are compared with the oracle."""
CALLS = 4
"""Calls of a replay on a GPU."""
PEER_ERROR = 2e-2
"""A peer whose result is further off, relative to the kernel's, takes no part."""


@dataclass(frozen=True)
class ExtendShape:
    """`extend` new tokens behind `prefix` cached ones, `batch` times over."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    prefix: int
    extend: int
    block_size: int
    layout: str
    dtype: str
    threads: int
    device: str
    kv_dtype: str = ""

    @property
    def dtypes(self) -> str:
        """Those of queries and caches, as a report names them."""
        return kv.label(self.dtype, self.kv_dtype)

    @property
    def context(self) -> int:
        return self.prefix + self.extend

    @property
    def operations(self) -> int:
        """Of both products, over pairs that a causal mask leaves."""
        pairs = self.extend * self.prefix + self.extend * (self.extend + 1) // 2
        return 4 * self.batch * self.heads * self.head_dim * pairs


@dataclass(frozen=True)
class ExtendRow:
    """One measured shape; rates in operations a second."""

    variant: str
    shape: ExtendShape
    seconds: Spread
    matmul_rate: float
    of_matmul: Spread
    peers: Mapping[str, Spread]
    speedup: Spread

    def json(self) -> dict[str, Any]:
        """The fields a program reads."""
        rate = self.shape.operations / self.seconds.median
        return {
            "op": "extend_attention",
            "variant": self.variant,
            "shape": asdict(self.shape),
            "seconds": self.seconds.median,
            "gflops": rate / 1e9,
            "matmul_gflops": self.matmul_rate / 1e9,
            "of_matmul": self.of_matmul.median,
            "peers": {
                name: {"seconds": peer.median, "ratio": peer.median / self.seconds.median}
                for name, peer in self.peers.items()
            },
            "spread": {
                "seconds": [self.seconds.low, self.seconds.high],
                "of_matmul": [self.of_matmul.low, self.of_matmul.high],
                "best_peer_ratio": [self.speedup.low, self.speedup.median, self.speedup.high],
            },
        }


def run(args: Mapping[str, Any], progress: Progress = lambda line: None) -> list[ExtendRow]:
    """Measure every combination of the listed options; see DEFAULTS. `progress` hears what comes next.

    Raises KgenError where a call has no kernel, an option is unknown, a device is not there (K582) or a
    result is wrong (K581).
    """
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    device = find_device(options["device"], options["arch"], load_catalog())
    threads = (options["threads"] or torch.get_num_threads()) if device == "cpu" else 0
    names = ("batch", "heads", "kv_heads", "head_dim", "prefix", "extend")
    rows = []
    for dtype, kv_dtype, layout, block_size in itertools.product(
        *(_several(options[name]) for name in ("dtype", "kv_dtype", "layout", "block_size"))
    ):
        kv.check_dtypes(dtype, kv_dtype or dtype)
        sizes: Mapping[str, Any] = {name: int(options[name]) for name in names}
        shape = ExtendShape(
            **sizes,
            block_size=int(block_size),
            layout=layout,
            dtype=dtype,
            kv_dtype=kv_dtype or "",
            threads=threads,
            device=device,
        )
        progress(f"{shape.dtypes} {layout} block_size {block_size}")
        with using_threads(threads or torch.get_num_threads()):
            rows.append(measure(shape, options, progress))
    return rows


class Extend:
    """The call that is timed: queries, pages and metadata of a shape."""

    def __init__(self, shape: ExtendShape, arch: str | None) -> None:
        self.shape, self.arch = shape, arch
        self.scale = shape.head_dim**-0.5
        self.pool = _pool(shape)
        rows = (shape.batch * shape.extend, shape.heads, shape.head_dim)
        generator = torch.Generator(shape.device).manual_seed(1)
        draw = torch.randn(rows, generator=generator, device=shape.device)
        self.q = draw.to(DTYPES[shape.dtype])
        self.out = torch.empty_like(self.q)
        self.batch = from_block_table(
            self.pool.tables[0],
            self.pool.seq_lens,
            torch.full_like(self.pool.seq_lens, shape.extend),
            shape.block_size,
            max_extend_len=shape.extend,
            max_seq_len=shape.context,
            total_q=rows[0],
        )

    def __call__(self) -> Tensor:
        caches = (self.pool.k_cache, self.pool.v_cache)
        layout = self.pool.layout.name
        options: dict[str, Any] = {"softmax_scale": self.scale, "layout": layout, "arch": self.arch}
        options |= {"k_scale": self.pool.scale, "v_scale": self.pool.scale, "out": self.out}
        ops.extend_attention(self.q, *caches, self.batch, **options)
        return self.out

    def check(self) -> str:
        """Call, and compare queries of every sequence with the oracle; the name of the kernel that ran.
        Raises KgenError (K581) for a result out of bounds."""
        before = calls()
        self.out.fill_(torch.nan)
        self()
        ops.check()
        name = launched(before)
        narrow = self.out.dtype != torch.float32
        for seq in range(self.shape.batch):
            k, v = self.pool.row(0, seq)
            for i in range(0, self.shape.extend, -(-self.shape.extend // ROWS)):
                row, visible = seq * self.shape.extend + i, self.shape.prefix + i + 1
                seen = k[:visible], v[:visible]
                prove_row(name, row, self.out[row], self.q[row], *seen, self.scale, narrow=narrow)
        return name


def _pool(shape: ExtendShape) -> Pool:
    """Pages for one table: the work is arithmetic, so that it need not leave the cache."""
    wanted = Shape(
        shape.batch,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        shape.context,
        shape.block_size,
        shape.layout,
        shape.dtype,
        shape.threads,
        shape.device,
        kv_dtype=shape.kv_dtype,
    )
    return draw_pool(wanted, load_catalog().layouts[shape.layout], cache_bytes=0)


def measure(
    shape: ExtendShape, options: Mapping[str, Any], progress: Progress = lambda line: None
) -> ExtendRow:
    """Check, then time, one shape."""
    work = Extend(shape, insisted(options["arch"]))
    variant = work.check()
    size = MATMUL_SIZE["cpu" if shape.device == "cpu" else "cuda"]
    a, b = (torch.randn(size, size, device=shape.device).to(work.q.dtype) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {"kernel": work, "matmul": lambda: a @ b}
    calls |= _peers(work, progress)
    times = _times(calls, shape, int(options["rounds"]))
    own, product = times.pop("kernel"), times.pop("matmul")
    rate = 2.0 * size**3 / spread(product).median
    best = [min(one) for one in zip(*times.values(), strict=True)] or own
    shares = [shape.operations / mine / (2.0 * size**3 / its) for mine, its in zip(own, product, strict=True)]
    return ExtendRow(
        variant=variant,
        shape=shape,
        seconds=spread(own),
        matmul_rate=rate,
        of_matmul=spread(shares),
        peers={name: spread(one) for name, one in times.items()},
        speedup=spread(ratios(own, best)),
    )


def _times(
    calls: Mapping[str, Callable[[], object]], shape: ExtendShape, rounds: int
) -> dict[str, list[float]]:
    if shape.device == "cpu":
        return alternate(calls, rounds, clock=wall_clock)
    replays = {name: recorded(_numbered(call), range(CALLS)) for name, call in calls.items()}
    return alternate(replays, rounds, clock=event_clock(CALLS))


def _numbered(call: Callable[[], object]) -> Numbered:
    return lambda number: call()


def _peers(work: Extend, progress: Progress) -> dict[str, Callable[[], object]]:
    """Those that run here and give the same result; of the others `progress` hears why not."""
    want = work().double()
    found: dict[str, Callable[[], object]] = {}
    for name, make in PEERS.items():
        try:
            call = make(work)
            if call is None:
                continue
            error = float((call().double() - want).norm() / want.norm())
            if work.q.is_cuda:
                recorded(_numbered(call), [0])
        except Exception as problem:  # other people's code
            progress(f"{name} takes no part: {type(problem).__name__}: {str(problem)[:200]}")
            continue
        if error <= PEER_ERROR:
            found[name] = call
        else:
            progress(f"{name} takes no part: its result is off by {error:.2g}")
    return found


def _several(value: object) -> Sequence[Any]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
