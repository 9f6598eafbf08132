"""`kgen test`: run the cases of the operator specs on every variant of a build."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kgen.commands.build import build_matrix
from kgen.commands.common import add_arch, add_build, add_json, open_build, print_json
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from kgen.testing.case import Outcome
    from kgen.variants.model import Matrix, Variant

SUMMARY = "check every variant of a build against the float64 oracle"

DETAILS = """\
Build what is missing, then run the cases of each operator's `tests` section on every variant:
results against the oracle in float64 (within bounds that follow from the arithmetic), the same
bits whatever lies in unused memory, and every faulty call refused with nothing written.

examples:
  kgen test host
  kgen test host --sample              a part in which every pair of parameter values occurs
  kgen test smollm2 --only 'paged_attention_*_p512' --json

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
    matrix, _ = open_build(args.build, args.arch)
    chosen = choose(matrix, args.only, sample=args.sample)
    build_matrix(dataclasses.replace(matrix, accepted=tuple(chosen)), quiet=args.json)
    outcomes = run_cases(chosen, verbose=args.verbose and not args.json)
    failed = [outcome for outcome in outcomes if outcome.problems]
    if args.json:
        print_json({"ok": not failed, "cases": [dataclasses.asdict(outcome) for outcome in outcomes]})
    else:
        _print(outcomes, len(chosen))
    return 1 if failed else 0


def choose(matrix: Matrix, only: str | None, *, sample: bool) -> list[Variant]:
    """The variants to test. Raises KgenError where the name matches none."""
    from kgen.testing.sample import cover

    chosen = [v for v in matrix.accepted if only is None or fnmatchcase(v.name, only)]
    if not chosen:
        names = [v.name for v in matrix.accepted]
        hint = choice_hint(only or "", names[:8])
        raise KgenError(Diagnostic("K301", f"no variant of {matrix.build} is named '{only}'", hint=hint))
    if not sample:
        return chosen
    by_op: dict[str, list[Variant]] = {}
    for variant in chosen:
        by_op.setdefault(variant.op.name, []).append(variant)
    return [v for group in by_op.values() for v in cover(group, lambda variant: variant.params)]


def run_cases(variants: Sequence[Variant], *, verbose: bool = False) -> list[Outcome]:
    """Run every case of these variants, which must be built. Failures are told as they come."""
    from kgen.testing.runner import cases, check

    outcomes = []
    for variant in variants:
        for case in cases(variant):
            outcome = check(case)
            outcomes.append(outcome)
            if outcome.problems or verbose:
                _tell(outcome)
    return outcomes


def _tell(outcome: Outcome) -> None:
    state = "FAILED" if outcome.problems else f"skipped ({outcome.skipped})" if outcome.skipped else "passed"
    print(f"{outcome.variant} [{outcome.case}] {state} in {outcome.seconds:.2f} s", flush=True)
    for problem in outcome.problems:
        print(f"  {problem}", flush=True)


def _print(outcomes: Sequence[Outcome], variants: int) -> None:
    failed = sum(bool(o.problems) for o in outcomes)
    skipped = sum(bool(o.skipped) for o in outcomes)
    passed = len(outcomes) - failed - skipped
    seconds = sum(o.seconds for o in outcomes)
    print(f"{variants} variants: {passed} cases passed, {failed} failed, {skipped} skipped in {seconds:.1f} s")
