"""`kgen clean`: remove built kernels from the cache."""

from __future__ import annotations

import argparse
import re

from kgen.commands.common import add_json, print_json

SUMMARY = "remove built kernels from the cache"

DETAILS = """\
Remove kernels from the cache (KGEN_CACHE_DIR, else XDG_CACHE_HOME/kgen, else ~/.cache/kgen), and
what failed or interrupted builds left there. Kernels that another process is building stay;
processes that have a kernel loaded keep it.

examples:
  kgen clean --dry-run
  kgen clean                           everything
  kgen clean --build host              what only this build uses
  kgen clean --older-than 30d          what no build used for 30 days (also h, m, s)

exit codes: 0 done, 1 a fault, 2 usage
"""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--build", metavar="NAME", help="only kernels that no other build names")
    parser.add_argument(
        "--older-than", type=age, metavar="AGE", help="only kernels unused for this long, such as 30d"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.build.clean import clean
    from kgen.paths import cache_dir

    removed = clean(build=args.build, older_than=args.older_than, dry_run=args.dry_run)
    if args.json:
        print_json(
            {
                "folder": str(cache_dir()),
                "kernels": list(removed.keys),
                "bytes": removed.size,
                "busy": list(removed.busy),
                "removed": not args.dry_run,
            }
        )
        return 0
    done = "would remove" if args.dry_run else "removed"
    print(f"{done} {len(removed.keys)} kernels, {removed.size / 2**20:.1f} MiB, from {cache_dir()}")
    for key in removed.busy:
        print(f"left alone, being built: {key}")
    return 0


def age(text: str) -> float:
    """Seconds of an age such as 90m or 30d; a bare number counts days."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no age; write 30d, 12h, 90m or 600s")
    return float(found[1]) * _UNITS[found[2] or "d"]
