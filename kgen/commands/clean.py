"""`kgen clean`: remove the cache."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from kgen.commands.common import add_json, print_json

SUMMARY = "remove kgen's cache of built kernels"

DETAILS = """\
Remove everything kgen has built: the cache folder (KGEN_CACHE_DIR, else XDG_CACHE_HOME/kgen, else
~/.cache/kgen). Running processes keep the kernels they have loaded.

examples:
  kgen clean --dry-run
  kgen clean

exit codes: 0 done, 1 a fault, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.paths import cache_dir

    folder = cache_dir()
    files, size = _measure(folder)
    if not args.dry_run and folder.exists():
        shutil.rmtree(folder)
    if args.json:
        print_json({"folder": str(folder), "files": files, "bytes": size, "removed": not args.dry_run})
    else:
        done = "would remove" if args.dry_run else "removed"
        print(f"{done} {files} files, {size / 2**20:.1f} MiB in {folder}")
    return 0


def _measure(folder: Path) -> tuple[int, int]:
    """How many files a folder holds, and their bytes; (0, 0) where there is no folder."""
    if not folder.exists():
        return 0, 0
    sizes = [p.lstat().st_size for p in folder.rglob("*") if not p.is_dir() or p.is_symlink()]
    return len(sizes), sum(sizes)
