"""What takes turns in `kgen bench decode`: the kernel, the loops that only read, and peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from kgen.bench.ceiling import ceiling
from kgen.bench.ceiling_gpu import gpu_ceiling
from kgen.bench.decode_call import Decode
from kgen.bench.device import Numbered, event_clock, recorded, turns
from kgen.bench.flashinfer_peer import FLASHINFER
from kgen.bench.measure import Contender, alternate
from kgen.bench.peers import COMPILED, Absent, Peer, Work, dense_peers
from kgen.bench.pool import Pool, Shape
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

PEER_ERROR = 0.05
"""Norm of a peer's error, as a part of the result's, above which it is left out. Those that round scores to
16 bits stay below a fifth of it."""


PAGE_LOOPS = ("pages", "pages_ahead")
"""The loops that read the pages of a table: in each round the faster of those there are is the ceiling."""


class Ceiling(Protocol):
    """The loops that only read, on one kind of device."""

    def stream(self, data: Tensor, nbytes: int) -> object:
        """Read the first `nbytes` of a contiguous tensor."""

    def pages(self, pool: Pool, number: int) -> object:
        """Read the pages a table names, in its order."""


def chosen_peers(names: Sequence[str] | None, device: str) -> Mapping[str, Peer]:
    """The peers to run on a device: those named, `all` or `none` of them, or where None all that need not
    be compiled. Raises KgenError (K580) for a name that no peer has."""
    on_gpu = device != "cpu"
    known = {**dense_peers(on_gpu), **(FLASHINFER if on_gpu else {})}
    if names is None:
        return {name: peer for name, peer in known.items() if name not in COMPILED}
    if list(names) in (["all"], ["none"]):
        return known if names[0] == "all" else {}
    for name in names:
        if name not in known:
            hint = choice_hint(name, ["all", "none", *known])
            raise KgenError(Diagnostic("K580", f"no peer on {device} is named '{name}'", hint=hint))
    return {name: known[name] for name in names}


def contenders(
    decode: Decode, peers: Mapping[str, Peer], progress: Callable[[str], None]
) -> dict[str, Numbered]:
    """What runs in turn. The streaming read stands apart from kernel and page loop: it leaves pages of
    their next table in the cache."""
    shape, in_order = decode.pool.shape, decode.pool.in_order()
    loops, page_loops = _page_loops(shape, in_order)
    return {
        **page_loops,
        "kernel": decode,
        **_peers(decode, peers, progress),
        "stream": lambda number: loops.stream(decode.pool.span(number), shape.kv_bytes),
    }


def _page_loops(shape: Shape, pool: Pool) -> tuple[Ceiling, dict[str, Numbered]]:
    """The loops of a shape's device, and those of them that are PAGE_LOOPS."""
    if shape.device != "cpu":
        on_gpu = gpu_ceiling(shape.device)
        return on_gpu, {"pages": partial(on_gpu.pages, pool)}
    on_cpu = ceiling(shape.threads)
    pages = partial(on_cpu.pages, pool)
    return on_cpu, {"pages": pages, "pages_ahead": partial(pages, ahead=True)}


def _peers(decode: Decode, peers: Mapping[str, Peer], progress: Callable[[str], None]) -> dict[str, Numbered]:
    """The peers that do the work of the first table as it should be done. One that fails, or gives something
    else, takes no part, and `progress` hears why."""
    pool, want = decode.pool, decode(0).double()
    work = Work(pool, decode.scale)
    found: dict[str, Numbered] = {}
    for name, prepare in peers.items():
        try:
            call = prepare(work)
            error = float((call(0).double() - want).norm() / want.norm())
            if pool.q.is_cuda:
                recorded(call, [0])
        except Exception as problem:  # other people's code
            progress(_left_out(name, problem))
            continue
        if error <= PEER_ERROR:
            found[name] = call
        else:
            progress(_left_out(name, f"its result is off by {error:.2g}"))
    return found


def _left_out(name: str, why: object) -> str:
    text = (str(why).strip() or type(why).__name__).splitlines()[0]
    kind = f"{type(why).__name__}: " if isinstance(why, Exception) and not isinstance(why, Absent) else ""
    return f"{name} takes no part: {kind}{text}"


def timed(decode: Decode, variant: str, calls: Mapping[str, Numbered], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in each round."""
    if decode.pool.shape.device == "cpu":
        return _times(decode, calls, rounds)
    return _device_times(decode, variant, calls, rounds)


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
    if "kernel" in replays:
        replays["kernel"]()
        decode.compare(numbers[-1], variant)
    return alternate(replays, rounds, clock=event_clock(len(numbers)))
