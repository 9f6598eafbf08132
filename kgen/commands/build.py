"""`kgen build`: compile what a build lacks, and make it known to dispatch."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_arch, add_build, add_json, open_build, print_json

if TYPE_CHECKING:
    from kgen.build.progress import Reporter
    from kgen.manifest import Entry
    from kgen.variants.model import Matrix

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
        "--jobs", type=positive, metavar="N", help="compilers at once (default: by cores and memory; MAX_JOBS)"
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
    start = time.perf_counter()
    matrix, _ = open_build(args.build, args.arch)
    result = build_matrix(
        matrix, jobs=args.jobs, out=args.out, compile_commands=args.compile_commands, quiet=args.json
    )
    seconds = time.perf_counter() - start
    if args.json:
        print_json(
            {
                "ok": True,
                "build": matrix.build,
                "kernels": [entry.name for entry in result.entries],
                "compiled": result.compiled,
                "rejected": len(matrix.rejected),
                "seconds": seconds,
                "library": str(args.out) if args.out else None,
            }
        )
        return 0
    kept = len(result.entries) - result.compiled
    print(
        f"{matrix.build}: {len(result.entries)} kernels ({result.compiled} compiled, {kept} from the cache), "
        f"{len(matrix.rejected)} combinations rejected, {seconds:.1f} s"
    )
    if args.out:
        print(f"library: {args.out}")
    return 0


@dataclass(frozen=True)
class Result:
    """The kernels of a build, and how many of them had to be compiled."""

    entries: Sequence[Entry]
    compiled: int


def build_matrix(
    matrix: Matrix,
    *,
    jobs: int | None = None,
    out: Path | None = None,
    compile_commands: Path | None = None,
    quiet: bool = False,
) -> Result:
    """Build the accepted variants, register them under the build's name, and write what was asked
    for. Raises KgenError with every compile that failed."""
    from kgen.build.build import build
    from kgen.build.compdb import write_compile_commands
    from kgen.build.library import register_library, write_library
    from kgen.build.progress import reporter
    from kgen.render.emit import render
    from kgen.variants.policy import compile_policy

    rendered = [render(variant) for variant in matrix.accepted]
    counting = Counting(reporter("none" if quiet else "auto"))
    entries = build(rendered, jobs=jobs, progress=counting)
    policies = [compile_policy(op) for op in {v.op.name: v.op for v in matrix.accepted}.values()]
    register_library(matrix.build, entries, policies)
    if out is not None:
        write_library(out, matrix.build, entries, policies)
    if compile_commands is not None:
        write_compile_commands(compile_commands, rendered)
    return Result(entries, counting.compiled)


@dataclass
class Counting:
    """A reporter that also counts what was compiled."""

    inner: Reporter
    compiled: int = field(default=0)

    def begin(self, total: int, jobs: int) -> None:
        self.inner.begin(total, jobs)

    def started(self, name: str) -> None:
        self.inner.started(name)

    def finished(self, name: str, seconds: float, ok: bool) -> None:
        self.compiled += ok
        self.inner.finished(name, seconds, ok)

    def waiting(self, name: str, holder: str) -> None:
        self.inner.waiting(name, holder)

    def end(self) -> None:
        self.inner.end()


def positive(text: str) -> int:
    """An integer of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no integer of at least 1")
    return int(text)
