"""`kgen build`: compile what a build lacks, and make it known to dispatch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_arch, add_build, add_json, positive, print_json

if TYPE_CHECKING:
    from kgen.variants.model import Matrix

SUMMARY = "compile the variants of a build"

DETAILS = """\
Render and compile the accepted variants of a build. What the cache already has is not compiled
again, whoever built it; a second run is a no-op. The kernels are then known to kgen.ops in every
process that uses this cache. With --out they are also copied to a folder of their own, which
another machine can use through KGEN_LIBRARY, without a compiler.

--syntax-only checks that the sources compile and makes no kernel. A chip that no compiler here knows is then
checked on its stand-in: a DCU without a DTK is checked by clang for a near AMD chip.

examples:
  kgen build host
  kgen build specs/builds/smollm2.yaml --jobs 2
  kgen build host --arch cpu_avx2 --out dist/kernels
  kgen build dcu --syntax-only

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
    parser.add_argument("--syntax-only", action="store_true", help="check the sources, make no kernels")
    add_arch(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.build.progress import Counting, reporter

    start = time.perf_counter()
    matrix = api.expand(args.build, args.arch)
    counting = Counting(reporter("none" if args.json else "auto"))
    if args.syntax_only:
        checked = api.check_sources(matrix, args.jobs, counting)
        _tell_checked(matrix, len(checked), counting.compiled, time.perf_counter() - start, as_json=args.json)
        return 0
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


def _tell_checked(matrix: Matrix, checked: int, compiled: int, seconds: float, *, as_json: bool) -> None:
    if as_json:
        found = {"ok": True, "build": matrix.build, "checked": checked, "compiled": compiled}
        print_json({**found, "rejected": len(matrix.rejected), "seconds": seconds})
        return
    kept = checked - compiled
    print(f"{matrix.build}: {checked} sources are sound ({kept} known to be, {seconds:.1f} s)")
