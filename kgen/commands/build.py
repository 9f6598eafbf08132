"""`kgen build`: compile what a build lacks, and make it known to dispatch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kgen.commands.common import add_arch, add_build, add_json, positive, print_json

SUMMARY = "compile the variants of a build"

DETAILS = """\
Render and compile the accepted variants of a build. What the cache already has is not compiled
again, whoever built it; a second run is a no-op. The kernels are then known to kgen.ops in every
process that uses this cache. With --out they are also copied to a folder of their own, which
another machine can use through KGEN_LIBRARY, without a compiler.

examples:
  kgen build host
  kgen build specs/builds/smollm2.yaml --jobs 2
  kgen build host --arch cpu_avx2 --out dist/kernels

exit codes: 0 all built, 1 a fault in a spec or a failed compile (the rest is kept), 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="also write a library that stands alone")
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="compilers at once (default: by cores and memory)"
    )
    parser.add_argument(
        "--compile-commands",
        type=Path,
        metavar="FILE",
        help="also write compile_commands.json, for editors and static checkers",
    )
    add_arch(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.build.progress import Counting, reporter

    start = time.perf_counter()
    matrix = api.expand(args.build, args.arch)
    counting = Counting(reporter("none" if args.json else "auto"))
    entries = api.build_matrix(matrix, args.jobs, counting, out=args.out)
    if args.compile_commands:
        api.compile_commands(matrix, args.compile_commands)
    found = {
        "ok": True,
        "build": matrix.build,
        "kernels": [entry.name for entry in entries],
        "compiled": counting.compiled,
        "rejected": len(matrix.rejected),
        "seconds": time.perf_counter() - start,
        "library": str(args.out) if args.out else None,
    }
    if args.json:
        print_json(found)
        return 0
    kept = len(entries) - counting.compiled
    print(
        f"{matrix.build}: {len(entries)} kernels ({counting.compiled} compiled, {kept} from the cache), "
        f"{len(matrix.rejected)} combinations rejected, {found['seconds']:.1f} s"
    )
    if args.out:
        print(f"library: {args.out}")
    return 0
