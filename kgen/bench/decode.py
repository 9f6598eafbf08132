"""`kgen bench decode`: paged_attention against the memory's own speed and against torch.

In every round the kernel, a loop that reads the same pages in the same table order, a plain streaming
read and torch's ways of doing the work (on keys and values that are already contiguous) run in
turn. Before anything is timed the kernel's results are compared with the float64 oracle. On a GPU
each of them is a graph of many calls, which the device times. GB/s counts the bytes of the keys and
values, 1e9 to the GB.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from kgen.bench.ceiling import ceiling
from kgen.bench.ceiling_gpu import gpu_ceiling
from kgen.bench.decode_call import Decode
from kgen.bench.device import Numbered, event_clock, find_device, insisted, recorded, turns
from kgen.bench.measure import Contender, Spread, alternate, ratios, spread
from kgen.bench.peers import PAGED_PEERS, PEERS, Paged, Peer
from kgen.bench.pool import Pool, Shape, draw_pool
from kgen.spec.load import load_catalog

DEFAULTS: Mapping[str, Any] = {
    "batch": 8,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "context": 4096,
    "block_size": (16, 64),
    "dtype": ("bf16", "f32"),
    "layout": ("bhsd",),
    "device": None,
    "arch": None,
    "threads": None,
    "rounds": 20,
    "reuse_kv_times": None,
    "partition_size": None,
}
"""Options and what they are when not given; block_size, dtype and layout take several values."""

PEER_ERROR = 0.05
"""Norm of a peer's error, as a part of the result's, above which it is left out. Those that round scores to
16 bits stay below a fifth of it."""

Progress = Callable[[str], None]


class Ceiling(Protocol):
    """The loops that only read, on one kind of device."""

    def stream(self, data: Tensor, nbytes: int) -> object:
        """Read the first `nbytes` of a contiguous tensor."""

    def pages(self, pool: Pool, number: int) -> object:
        """Read the pages a table names, in its order."""


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

    Raises KgenError where a call has no kernel, an option is unknown, a device is not there (K582), or
    a result is wrong (K581).
    """
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    device = find_device(options["device"], options["arch"], load_catalog())
    threads = (options["threads"] or torch.get_num_threads()) if device == "cpu" else 0
    rows = []
    for dtype, layout, block_size in itertools.product(
        *(_several(options[name]) for name in ("dtype", "layout", "block_size"))
    ):
        names = ("batch", "heads", "kv_heads", "head_dim", "context")
        sizes: Mapping[str, Any] = {name: int(options[name]) for name in names}
        shape = Shape(
            **sizes,
            block_size=int(block_size),
            layout=layout,
            dtype=dtype,
            threads=threads,
            device=device,
        )
        progress(f"{dtype} {layout} block_size {block_size}")
        with using_threads(threads or torch.get_num_threads()):
            rows.append(measure(shape, options, progress))
    return rows


def measure(shape: Shape, options: Mapping[str, Any], progress: Progress = lambda line: None) -> Row:
    """Check, then time, one shape."""
    pool = draw_pool(shape, load_catalog().layouts[shape.layout])
    forced = {name: options[name] for name in ("reuse_kv_times", "partition_size")}
    decode = Decode(pool, forced, insisted(options["arch"]))
    variant = decode.check()
    loops: Ceiling = ceiling(shape.threads) if shape.device == "cpu" else gpu_ceiling(shape.device)
    calls, rounds = {**_own_calls(decode, loops), **_peers(decode, progress)}, int(options["rounds"])
    if shape.device == "cpu":
        times = _times(decode, calls, rounds)
    else:
        times = _device_times(decode, variant, calls, rounds)
    own = times.pop("kernel")
    pages, stream = times.pop("pages"), times.pop("stream")
    best = [min(one) for one in zip(*times.values(), strict=True)] or own
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


def _own_calls(decode: Decode, loops: Ceiling) -> dict[str, Numbered]:
    pool, nbytes = decode.pool, decode.pool.shape.kv_bytes
    return {
        "kernel": decode,
        "pages": lambda number: loops.pages(pool, number),
        "stream": lambda number: loops.stream(pool.span(number), nbytes),
    }


def _peers(decode: Decode, progress: Progress) -> dict[str, Numbered]:
    """What others do with the tables, each on keys and values as it wants them. One that fails, or gives
    something else, takes no part, and `progress` hears why."""
    pool = decode.pool
    gathered = [pool.contiguous(number) for number in range(len(pool.tables))]
    calls: dict[str, Callable[[], Paged | None]] = {
        name: partial(_peer_call, peer, pool, gathered, decode.scale) for name, peer in PEERS.items()
    }
    calls |= {name: partial(make, pool, decode.scale) for name, make in PAGED_PEERS.items()}
    want = decode(0).double()
    found: dict[str, Numbered] = {}
    for name, make in calls.items():
        try:
            call = make()
            error = float((call(0).double() - want).norm() / want.norm()) if call else 0.0
            if call is not None and pool.q.is_cuda:
                recorded(call, [0])
        except Exception as problem:  # other people's code
            progress(_left_out(name, problem))
            continue
        if call is not None and error <= PEER_ERROR:
            found[name] = call
        elif call is not None:
            progress(_left_out(name, f"its result is off by {error:.2g}"))
    return found


def _left_out(name: str, why: object) -> str:
    kind = f"{type(why).__name__}: " if isinstance(why, Exception) else ""
    return f"{name} takes no part: {kind}{why}"


def _peer_call(peer: Peer, pool: Pool, gathered: Sequence[tuple[Tensor, Tensor]], scale: float) -> Paged:
    return lambda number: peer(pool.q, *gathered[number], scale)


def _times(decode: Decode, calls: Mapping[str, Numbered], rounds: int) -> dict[str, list[float]]:
    """Call by call, each on the next of the tables."""
    turn = decode.pool.rotation()

    def contender(call: Numbered) -> Contender:
        return lambda: call(next(turn))

    return alternate({name: contender(call) for name, call in calls.items()}, rounds)


def _device_times(
    decode: Decode, variant: str, calls: Mapping[str, Numbered], rounds: int
) -> dict[str, list[float]]:
    """Graph by graph. What the kernel's graph leaves is compared with the oracle once more."""
    numbers = turns(len(decode.pool.tables), decode.pool.shape.kv_bytes)
    replays = {name: recorded(call, numbers) for name, call in calls.items()}
    decode.out.fill_(torch.nan)
    replays["kernel"]()
    decode.compare(numbers[-1], variant)
    return alternate(replays, rounds, clock=event_clock(len(numbers)))


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
