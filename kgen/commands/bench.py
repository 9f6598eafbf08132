"""`kgen bench`: measure kernels against the machine's own ceilings and against torch, and the runtime."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from kgen.commands import bench_decode
from kgen.commands.common import add_json, console, positive, print_json, whole

SUMMARY = "measure kernels against ceilings taken in the same run, and the radix cache"

DETAILS = """\
  decode     paged_attention in GB/s of keys and values, as a share of two ceilings (a loop that only
             reads the same pages in the same table order, and a plain streaming read), and against
             torch's best form, which is given the keys and values already gathered, and FlashInfer
             where it is installed. All of them run in turn, round after round; the median of the
             rounds' ratios counts. On a GPU each is a graph of many calls, timed by the device.
             --grid runs a list of calls, says each as it is done and then their geometric means; a
             cell that fails is told, and the others run.
  extend     extend_attention in FLOP/s over visible pairs, as a share of torch's matrix product of the
             same dtype, and against torch's attention on gathered keys and values, and FlashInfer
             where it is installed
  overhead   what one small call of each operator costs before any work
  params     what block_size and partition_size cost and give
  radix      what the radix cache costs a request (match, lock, allocate, insert, unlock) on a seeded trace of
             conversations, and single operations on large trees; CPU time, no kernel and no model

examples:
  kgen bench decode
  kgen bench decode --dtype bf16 --block-size 16 --context 4096 --threads 2 --json
  kgen bench decode --device cuda --dtype bf16 --kv-dtype bf16 fp8_e4m3 --batch 64
  kgen bench decode --device cuda --grid full --only "head_dim == 128" --out h200.json
  kgen bench decode --from h200.json --plot h200.png
  kgen bench overhead
  kgen bench radix --page-size 1 64

exit codes: 0 done, 1 a fault (a result that is wrong is not timed) or a cell that failed, 2 usage
"""

# An option's name, how it reads, and what it says of itself.
_Option = tuple[str, Callable[[str], Any], str]
_SHAPE: tuple[_Option, ...] = (
    ("batch", positive, "sequences in a call (8)"),
    ("heads", positive, "query heads (32)"),
    ("kv_heads", positive, "KV heads (8)"),
    ("head_dim", positive, "elements of a head (128)"),
    ("context", positive, "tokens of each sequence (4096)"),
)
_EXTEND: tuple[_Option, ...] = (
    ("batch", positive, "sequences in a call (1)"),
    *_SHAPE[1:4],
    ("prefix", whole, "tokens of each sequence that were computed before (3584)"),
    ("extend", positive, "new tokens of each sequence (512)"),
)
_THREADS: _Option = ("threads", positive, "threads of a kernel (as many as torch uses)")
_ROUNDS: _Option = ("rounds", positive, "rounds of kernel, ceilings and peers in turn (20)")
_DEVICE: _Option = ("device", str, "cpu, or cuda for a GPU (cpu)")
_ARCH: _Option = ("arch", str, "insist on a target's kernels; one of a GPU's puts the tensors there (native)")
_SEVERAL: tuple[_Option, ...] = (
    ("dtype", str, "of queries and outputs; several are measured one by one (bf16 f32)"),
    ("kv_dtype", str, "of keys and values, fp8_e4m3 or fp8_e5m2; several may be given (that of the queries)"),
    ("layout", str, "of the cache; several may be given (bhsd)"),
    ("block_size", positive, "tokens in a page; several may be given (16 64)"),
)
_POLICY: _Option = ("policy", str, "how partition_size is chosen; several are measured one by one")
_FORCED: tuple[_Option, ...] = (
    ("reuse_kv_times", positive, "insist on this value (else the policy's)"),
    (
        "partition_size",
        int,
        "insist on this value: 0 for a single pass, -1 for even shares (else the policy's)",
    ),
    ("seed", whole, "of the lengths that --ragged draws (0)"),
)

_TRACE: tuple[_Option, ...] = (
    ("requests", positive, "requests of the trace (2000)"),
    ("sessions", positive, "conversations they belong to (200)"),
    ("pool_tokens", positive, "tokens the pool holds (200000)"),
    ("in_flight", positive, "requests under way at once (16)"),
    ("policy", str, "which leaves are evicted first: lru, lfu, fifo, priority (lru)"),
    ("rounds", positive, "times a single operation is measured (200)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    decode = kinds.add_parser("decode", help="decode attention against its ceilings")
    for name, kind, text in (*_SEVERAL, _POLICY):
        decode.add_argument(_flag(name), type=kind, nargs="+", metavar=name.upper(), help=text)
    _add(decode, (*_SHAPE, _THREADS, _ROUNDS, *_FORCED, _DEVICE, _ARCH))
    bench_decode.add_arguments(decode)
    extend = kinds.add_parser("extend", help="attention behind a prefix against the matrix product")
    for name, kind, text in _SEVERAL:
        extend.add_argument(_flag(name), type=kind, nargs="+", metavar=name.upper(), help=text)
    _add(extend, (*_EXTEND, _THREADS, _ROUNDS, _DEVICE, _ARCH))
    overhead = kinds.add_parser("overhead", help="the cost of a call before any work")
    _add(overhead, (("calls", positive, "calls in a round (2000)"), _ROUNDS, _THREADS, _DEVICE))
    params = kinds.add_parser("params", help="the cost of block and partition sizes")
    _add(params, (*_SHAPE, _THREADS, _ROUNDS))
    radix = kinds.add_parser("radix", help="the cost of the radix cache")
    radix.add_argument(
        "--page-size", type=positive, nargs="+", metavar="N", help="tokens in a page (1 16 64)"
    )
    _add(radix, _TRACE)
    for kind_parser in (decode, extend, overhead, params, radix):
        add_json(kind_parser)


def _add(parser: argparse.ArgumentParser, options: tuple[_Option, ...]) -> None:
    for name, kind, text in options:
        metavar = name.upper() if kind is str else "N"
        parser.add_argument(_flag(name), type=kind, metavar=metavar, help=text)


def run(args: argparse.Namespace) -> int:
    from kgen.bench import report

    options = {name: value for name, value in vars(args).items() if name not in ("run", "json", "kind")}
    if args.kind == "decode":
        return bench_decode.run(args, options, _tell)
    found = report.run(args.kind, options, _tell)
    if args.json:
        print_json(found.json())
    else:
        console().print(found.table())
    return 0


def _tell(line: str) -> None:
    print(f"kgen: {line}", file=sys.stderr, flush=True)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
