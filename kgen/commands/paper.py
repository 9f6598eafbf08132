"""`kgen paper`: published figures of paging and prefix caching, recomputed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kgen.commands.common import add_json, console, positive, print_json

SUMMARY = "recompute published figures of paging and prefix caching with the runtime"

DETAILS = """\
Single figures (reserved and unused slots, holes, forks, shared prompts, hits by token and by block) come from
the runtime and, where they are about systems before paging, from a model of contiguous memory.

For each TRACE (Azure CSV or Mooncake JSON lines), requests wait for the same KV memory: reserved for the
longest sequence, for the output rounded up to a power of two, for the very output, and in pages through
the scheduler. What is useful, what is wasted and how many requests run at once is printed side by side.

Speed by block and partition size: kgen bench params.

examples:
  kgen paper
  kgen paper AzureLLMInferenceTrace_conv.csv AzureLLMInferenceTrace_code.csv
  kgen paper TRACE --max-seq-len 4096 --budget-gib 24 --json

exit codes: 0 the single figures and the bound on paging's waste are as published, 1 one differs or a fault,
2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("traces", metavar="TRACE", nargs="*", type=Path, help="request traces")
    parser.add_argument(
        "--max-seq-len", type=positive, default=2048, metavar="N", help="longest sequence in tokens (2048)"
    )
    parser.add_argument(
        "--budget-gib", type=positive, default=12, metavar="N", help="KV memory of LLaMA-13B in GiB (12)"
    )
    parser.add_argument(
        "--requests", type=positive, default=500, metavar="N", help="requests that go through it (500)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.paper.figures import Settings, figures
    from kgen.paper.table import tables

    settings = Settings(args.max_seq_len, args.budget_gib, args.requests)
    found = figures(args.traces, settings, lambda line: print(f"kgen: {line}", file=sys.stderr, flush=True))
    if args.json:
        print_json(found.json())
    else:
        console().print(tables(found))
    return 0 if found.hold else 1
