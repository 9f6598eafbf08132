"""`kgen replay`: a request trace through the runtime, without a model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kgen.commands.common import add_json, console, positive, print_json, whole

SUMMARY = "send a request trace through cache, pool and scheduler, without a model"

DETAILS = """\
Read TRACE and let its requests arrive at a scheduler over a pool of pages and a prefix cache, as they
did. The model's time is a formula: each step takes --step-ms and --row-us for every query row. Told are
the hit rate, evictions, preemptions, wasted memory, and latencies on that clock.

TRACE is JSON lines with timestamp, input_length, output_length and hash_ids (as Mooncake has them), or
CSV with TIMESTAMP, ContextTokens and GeneratedTokens (as Azure has them). The second says nothing of
content, so no prefix in it is shared.

examples:
  kgen replay mooncake_conversation_trace.jsonl --requests 2000
  kgen replay mooncake_conversation_trace.jsonl --pool-tokens 2000000 --order fcfs --speed 0.5
  kgen replay AzureLLMInferenceTrace_conv.csv --page-size 64 --json

exit codes: 0 replayed, 1 a fault (a line that is no request, a setting that means nothing), 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, metavar="TRACE", help="a file of requests")
    parser.add_argument("--requests", type=positive, metavar="N", help="only the first N")
    parser.add_argument(
        "--pool-tokens", type=positive, default=500_000, metavar="N", help="token slots of memory (500000)"
    )
    parser.add_argument("--page-size", type=positive, default=16, metavar="N", help="tokens of a page (16)")
    parser.add_argument("--no-cache", action="store_true", help="keep no prefixes")
    parser.add_argument("--policy", default="lru", metavar="NAME", help="eviction: lru, lfu, fifo, priority")
    _add_scheduler(parser)
    parser.add_argument(
        "--host-tokens", type=whole, default=0, metavar="N", help="token slots to swap to (0)"
    )
    parser.add_argument("--step-ms", type=_number, default=10.0, metavar="X", help="time of a step (10)")
    parser.add_argument(
        "--row-us", type=_number, default=20.0, metavar="X", help="time of a query row in it (20)"
    )
    parser.add_argument(
        "--speed", type=_number, default=1.0, metavar="X", help="arrivals come X times as fast (1)"
    )
    add_json(parser)


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-batch-tokens", type=positive, default=8192, metavar="N", help="query rows of a step (8192)"
    )
    parser.add_argument(
        "--max-sequences", type=positive, default=256, metavar="N", help="sequences at once (256)"
    )
    parser.add_argument("--max-chunk", type=positive, metavar="N", help="rows of one prompt in a step")
    parser.add_argument(
        "--order",
        default="longest-prefix",
        metavar="NAME",
        help="longest-prefix, hit-ratio, dfs-weight, fcfs or priority",
    )
    parser.add_argument(
        "--max-bypass", type=whole, default=64, metavar="N", help="later arrivals that may go first (64)"
    )
    parser.add_argument("--preemption", default="recompute", metavar="NAME", help="recompute or swap")


def run(args: argparse.Namespace) -> int:
    from kgen.replay.report import report
    from kgen.replay.simulate import Settings, Simulation
    from kgen.replay.traces import read_trace
    from kgen.runtime import SchedulerConfig

    settings = Settings(
        pool_tokens=args.pool_tokens,
        page_size=args.page_size,
        cached=not args.no_cache,
        policy=args.policy,
        host_tokens=args.host_tokens,
        step_ms=args.step_ms,
        row_us=args.row_us,
        speed=args.speed,
        scheduler=SchedulerConfig(
            max_batch_tokens=args.max_batch_tokens,
            max_sequences=args.max_sequences,
            max_chunk=args.max_chunk,
            order=args.order,
            max_bypass=args.max_bypass,
            preemption=args.preemption,
        ),
    )
    trace = read_trace(args.trace, args.requests)
    found = report(trace, Simulation(trace, settings).run(_Shown()))
    if args.json:
        print_json(found.json())
    else:
        console().print(found.tables())
    return 0


class _Shown:
    """Progress on stderr, a line for every twentieth part."""

    def __init__(self) -> None:
        self._parts = 0

    def __call__(self, ended: int, total: int) -> None:
        parts = ended * 20 // total
        if parts > self._parts:
            self._parts = parts
            print(f"kgen: {ended:,} of {total:,} requests", file=sys.stderr, flush=True)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no number") from None
