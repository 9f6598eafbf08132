"""`kgen bench decode`: paged_attention against the memory's own speed and against others.

In every round a loop that reads the same pages in the same table order, the kernel, others' ways of doing
the work and a plain streaming read run in turn. On a CPU that loop takes two forms, of which the faster of
each round counts: one reads, the other also asks for what it will read. Before anything is timed the
kernel's results are compared with the float64 oracle. On a GPU each of them is a graph of many calls, which
the device times. GB/s counts the bytes of the keys and values, 1e9 to the GB.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kgen import api, env
from kgen.bench import kv
from kgen.bench.contenders import PAGE_LOOPS, chosen_peers, contenders, timed
from kgen.bench.decode_call import Decode, kernel_of
from kgen.bench.device import find_device, insisted
from kgen.bench.flashinfer_peer import FLASHINFER
from kgen.bench.measure import Spread, ratios, spread
from kgen.bench.pool import Shape, bytes_of, draw_pool
from kgen.build.capacity import available_memory
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.load import load_catalog

DEFAULTS: Mapping[str, Any] = {
    "batch": 8,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "context": 4096,
    "block_size": (16, 64),
    "dtype": ("bf16", "f32"),
    "kv_dtype": (None,),
    "layout": ("bhsd",),
    "device": None,
    "arch": None,
    "threads": None,
    "rounds": 20,
    "reuse_kv_times": None,
    "partition_size": None,
    "policy": (None,),
    "ragged": False,
    "seed": 0,
    "peers": None,
}
"""Options and what they are when not given; block_size, layout, policy and both dtypes take several values.
A kv_dtype of None is that of the queries."""
FORCED = ("reuse_kv_times", "partition_size", "policy")
"""What a call insists on where an option says so."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One measured shape. `peers` are seconds by name, `best_peer` is the fastest of them by its median, and
    `speedup` its time as a multiple of the kernel's; none where no peer took part. `rotation`: how many
    tables calls go round, the bytes of all but one of them, and those of the cache they outgrow."""

    variant: str
    shape: Shape
    seconds: Spread
    of_ceiling: Spread
    of_stream: Spread
    ceiling_seconds: float
    stream_seconds: float
    peers: Mapping[str, Spread]
    best_peer: str
    speedup: Spread | None
    rotation: tuple[int, int, int]

    def json(self) -> dict[str, Any]:
        """The fields a program reads; bytes of KV per second in GB/s."""
        return {
            "op": "paged_attention",
            "variant": self.variant,
            "shape": self.shape.json(),
            "seconds": self.seconds.median,
            "gbps": self.gbps(self.seconds.median),
            "tokens_per_second": self.tokens_per_second,
            "ceiling_gbps": self.gbps(self.ceiling_seconds),
            "of_ceiling": self.of_ceiling.median,
            "stream_gbps": self.gbps(self.stream_seconds),
            "of_stream": self.of_stream.median,
            "peers": {
                name: {"seconds": peer.median, "ratio": peer.median / self.seconds.median}
                for name, peer in self.peers.items()
            },
            "best_peer": self.best_peer,
            "rotation": dict(zip(("tables", "bytes", "cache_bytes"), self.rotation, strict=True)),
            "spread": {
                "seconds": [self.seconds.low, self.seconds.high],
                "of_ceiling": [self.of_ceiling.low, self.of_ceiling.high],
                "of_stream": [self.of_stream.low, self.of_stream.high],
                "best_peer_ratio": [self.speedup.low, self.speedup.median, self.speedup.high]
                if self.speedup
                else None,
            },
        }

    @property
    def tokens_per_second(self) -> float:
        """Each call gives every sequence one."""
        return self.shape.batch / self.seconds.median

    def gbps(self, seconds: float) -> float:
        return self.shape.kv_bytes / seconds / 1e9


def run(args: Mapping[str, Any], progress: Progress = lambda line: None) -> list[Row]:
    """Measure every combination of the listed options; see DEFAULTS. `progress` hears what comes next.

    Raises KgenError where a call has no kernel, an option is unknown, a device is not there (K582), or
    a result is wrong (K581).
    """
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    device = find_device(options["device"], options["arch"], load_catalog())
    threads = (options["threads"] or torch.get_num_threads()) if device == "cpu" else 0
    chosen_peers(options["peers"], device)
    rows = []
    for dtype, kv_dtype, layout, block_size, policy in itertools.product(
        *(_several(options[name]) for name in ("dtype", "kv_dtype", "layout", "block_size", "policy"))
    ):
        kv.check_dtypes(dtype, kv_dtype or dtype)
        names = ("batch", "heads", "kv_heads", "head_dim", "context", "seed")
        sizes: Mapping[str, Any] = {name: int(options[name]) for name in names}
        shape = Shape(
            **sizes,
            block_size=int(block_size),
            layout=layout,
            dtype=dtype,
            kv_dtype=kv_dtype or "",
            threads=threads,
            device=device,
            ragged=bool(options["ragged"]),
        )
        progress(f"{shape.dtypes} {layout} block_size {block_size}{f' policy {policy}' if policy else ''}")
        with using_threads(threads or torch.get_num_threads()):
            rows.append(measure(shape, {**options, "policy": policy}, progress))
    return rows


def measure(shape: Shape, options: Mapping[str, Any], progress: Progress = lambda line: None) -> Row:
    """Check, then time, one shape. Raises KgenError as `run` does, and where memory is short (K586)."""
    wanted = chosen_peers(options["peers"], shape.device)
    check_room(shape, gathered=any(name not in FLASHINFER for name in wanted))
    pool = draw_pool(shape, load_catalog().layouts[shape.layout])
    forced = {name: options[name] for name in FORCED}
    arch = insisted(options["arch"])
    if env.jit():
        api.build_ahead([kernel_of(shape, forced, arch)])
    decode = Decode(pool, forced, arch)
    variant = decode.check()
    if pool.rotation_bytes < pool.cache_bytes:
        progress(f"{len(pool.tables)} tables do not outgrow the cache: rates are partly its own")
    times = timed(decode, variant, contenders(decode, wanted, progress), int(options["rounds"]))
    own, stream = times.pop("kernel"), times.pop("stream")
    pages = [min(one) for one in zip(*(times.pop(name) for name in PAGE_LOOPS if name in times), strict=True)]
    peers = {name: spread(one) for name, one in times.items()}
    best = min(peers, key=lambda name: peers[name].median, default="")
    return Row(
        variant=variant,
        shape=shape,
        seconds=spread(own),
        of_ceiling=spread(ratios(own, pages)),
        of_stream=spread(ratios(own, stream)),
        ceiling_seconds=spread(pages).median,
        stream_seconds=spread(stream).median,
        peers=peers,
        best_peer=best,
        speedup=spread(ratios(own, times[best])) if best else None,
        rotation=(len(pool.tables), pool.rotation_bytes, pool.cache_bytes),
    )


def check_room(shape: Shape, *, gathered: bool) -> None:
    """Raise KgenError (K586) where the device lacks memory for a shape: a host that runs out kills."""
    if shape.device == "cpu":
        free = available_memory()
    else:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(shape.device)
    needed = bytes_of(shape, gathered=gathered)
    if free is not None and needed > free:
        message = f"the call and its peers need {needed / 2**30:.1f} GiB; {free / 2**30:.1f} are free"
        raise KgenError(Diagnostic("K586", message, hint="--peers none takes less, and so do smaller calls"))


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """torch and the kernels on `count` threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _several(value: object) -> Sequence[Any]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)
