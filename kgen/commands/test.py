"""`kgen test`: run the cases of the operator specs on every variant of a build."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgen.commands.common import add_arch, add_build, add_json, print_json

if TYPE_CHECKING:
    from kgen.testing.case import Outcome

SUMMARY = "check every variant of a build against the float64 oracle"

DETAILS = """\
Build what is missing, then run the cases of each operator's `tests` section on every variant:
results against the oracle in float64 (within bounds that follow from the arithmetic), the same
bits whatever lies in unused memory, and every faulty call refused with nothing written. Variants
of a GPU run where torch sees one of that target; what cannot run here is skipped, and said.

examples:
  kgen test host
  kgen test host --sample              a part in which every pair of parameter values occurs
  kgen test smollm2 --only 'paged_attention_*_p512' --json
  kgen test h200 --sample              on an H100 or H200

exit codes: 0 all pass, 1 a case fails, or a fault in a spec or build, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build(parser)
    parser.add_argument("--only", metavar="NAME", help="only the variants of this name (* and ? match)")
    parser.add_argument("--sample", action="store_true", help="a sample that covers all pairs of values")
    parser.add_argument("--verbose", action="store_true", help="a line for each case, not only failures")
    add_arch(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.testing.runner import unrunnable
    from kgen.testing.variants import outcomes, sampled
    from kgen.variants.matching import matching

    matrix = api.expand(args.build, args.arch)
    chosen = matching(matrix.accepted, args.only)
    if args.sample:
        chosen = sampled(chosen)
    wanted = [variant for variant in chosen if not unrunnable(variant)]
    api.build_matrix(matrix, progress="none" if args.json else "auto", chosen=wanted)
    found = []
    for outcome in outcomes(chosen):
        found.append(outcome)
        if not args.json and (outcome.problems or args.verbose):
            _tell(outcome)
    failed = any(outcome.problems for outcome in found)
    if args.json:
        print_json({"ok": not failed, "cases": [dataclasses.asdict(outcome) for outcome in found]})
    else:
        _print_totals(found, len(chosen))
    return 1 if failed else 0


def _tell(outcome: Outcome) -> None:
    state = "FAILED" if outcome.problems else f"skipped ({outcome.skipped})" if outcome.skipped else "passed"
    print(f"{outcome.variant} [{outcome.case}] {state} in {outcome.seconds:.2f} s", flush=True)
    for problem in outcome.problems:
        print(f"  {problem}", flush=True)


def _print_totals(found: Sequence[Outcome], variants: int) -> None:
    failed = sum(bool(o.problems) for o in found)
    skipped = sum(bool(o.skipped) for o in found)
    counts = f"{len(found) - failed - skipped} cases passed, {failed} failed, {skipped} skipped"
    print(f"{variants} variants: {counts} in {sum(o.seconds for o in found):.1f} s")
    reasons = sorted({o.skipped for o in found if o.skipped})
    for reason in reasons:
        print(f"  skipped: {reason}")
