"""`kgen explain`: which kernel runs for a call, and why; why a combination is rejected."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgen.commands import lanes, regions
from kgen.commands.common import add_arch, add_build, add_json, diagnostic_json, print_json
from kgen.commands.list import print_rejected, rejected_json
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from kgen.dispatch.model import Choice, Selection
    from kgen.manifest import Scalar
    from kgen.spec.catalog import Catalog
    from kgen.spec.model import OpSpec
    from kgen.variants.explain import Explanation
    from kgen.variants.model import Matrix

MOST_SKIPPED = 5
"""Kernels passed over that a person is told of."""

SUMMARY = "say which kernel serves a call, why a combination is rejected, or what a mask or a lane holds"

DETAILS = """\
  call      Which variant of OP serves a call of the given sizes, and how each free parameter got its
            value: by argument, environment variable, tuning table or the policy of the spec. Nothing
            is built or run. Sizes are the facts and parameters of the operator, as --name value or
            name=value; a free parameter given here counts as one the caller insists on.
  rejected  What BUILD makes of some values of parameters: every rule they break, with its reason, its
            place in the spec and the figures it was judged by; values that no axis of the build has;
            the combinations that are accepted.
  lanes     How a matrix instruction of TARGET spreads its operands over lanes.
  regions   Which tiles of a shape the mask VARIANT leaves full, partial and empty.

examples:
  kgen explain call paged_attention --num-seqs 8 --num-heads 32 --num-kv-heads 8 --head-dim 128 \\
      --block-size 16 --dtype bf16 --layout bshd --max-seq-len 4096
  kgen explain rejected host head_dim=100
  kgen explain rejected host op=paged_attention partition_size=100 block_size=16 --json
  kgen explain lanes gfx936 mmac_f32_16x16x16_f16
  kgen explain regions sliding --q-len 512 --kv-len 2048 --arg window=256

exit codes: 0 explained, 1 a fault (an unknown name, a call that nothing can serve), 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    call = kinds.add_parser(
        "call",
        help="which kernel would run for this call, and why",
        description=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(call)
    call.add_argument("op", metavar="OP")
    call.add_argument("sizes", nargs=argparse.REMAINDER, metavar="--NAME VALUE")
    rejected = kinds.add_parser("rejected", help="why a combination is not generated")
    add_build(rejected)
    rejected.add_argument("values", nargs="+", metavar="NAME=VALUE")
    add_arch(rejected)
    add_json(rejected)
    lanes.add_arguments(kinds)
    regions.add_arguments(kinds)


def run(args: argparse.Namespace) -> int:
    kinds = {"call": _run_call, "rejected": _run_rejected, "lanes": lanes.run, "regions": regions.run}
    return kinds[args.kind](args)


def _run_call(args: argparse.Namespace) -> int:
    from kgen.api import dispatcher

    words = [word for word in args.sizes if word != "--json"]
    args.json = args.json or len(words) < len(args.sizes)
    selection = dispatcher().explain(args.op, pairs(words))
    refused = None if selection.kernel else dispatcher().compiler.reject(args.op, selection.params)
    if args.json:
        print_json(_selection_json(selection, refused))
    else:
        _print_selection(selection, refused)
    return 0


def pairs(words: Sequence[str]) -> dict[str, Scalar]:
    """`--name value`, `--name=value` and `name=value` words as values by name.

    Raises KgenError for a name without a value or a value without a name.
    """
    found: dict[str, Scalar] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            if not word.startswith("--") or not rest:
                what = "has no name" if not word.startswith("--") else "has no value"
                raise KgenError(
                    Diagnostic("K602", f"'{word}' {what}", hint="write --name value or name=value")
                )
            value = rest.pop(0)
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _selection_json(selection: Selection, refused: Diagnostic | None) -> Mapping[str, Any]:
    return {
        "op": selection.op,
        "variant": selection.kernel.entry.name if selection.kernel else None,
        "built": selection.kernel is not None,
        "refused": diagnostic_json(refused) if refused else None,
        "params": dict(selection.params),
        "choices": [dataclasses.asdict(choice) for choice in selection.choices],
        "tuned": selection.tuned.where if selection.tuned else None,
        "facts": {n: v for n, v in selection.names.items() if n not in selection.params},
        "candidates": list(selection.candidates),
        "passed_over": [dataclasses.asdict(skip) for skip in selection.skipped],
    }


def _print_selection(selection: Selection, refused: Diagnostic | None) -> None:
    if selection.kernel:
        print(f"{selection.kernel.entry.name}\n  built, of library {selection.kernel.library}")
    else:
        print(_not_built(selection.op, refused))
    free = {choice.param for choice in selection.choices}
    fixed = ", ".join(f"{n} = {v}" for n, v in selection.params.items() if n not in free)
    print(f"  fixed by the call: {fixed}")
    for choice in selection.choices:
        _print_choice(choice)
    if selection.tuned is not None and not selection.tuned.use:
        print(f"  the tuning table leaves calls of this class to the rules ({selection.tuned.where})")
    derived = {n: v for n, v in selection.names.items() if n not in selection.params}
    print("  sizes: " + ", ".join(f"{n} = {v}" for n, v in derived.items()))
    if selection.candidates:
        print(f"  {len(selection.candidates)} built variants have the fixed parameters:")
        for name in selection.candidates:
            print(f"    {name}")
    for skip in selection.skipped[:MOST_SKIPPED]:
        print(f"  passed over {skip.name}: {skip.reason}")
    if len(selection.skipped) > MOST_SKIPPED:
        print(f"  and {len(selection.skipped) - MOST_SKIPPED} more are passed over (--json names them)")


def _not_built(op: str, refused: Diagnostic | None) -> str:
    from kgen import env

    if refused is not None:
        return f"no variant of {op}: the call raises\n{refused}"
    if env.jit():
        return f"a variant of {op} that is not built yet; the first call builds it"
    return f"no built variant of {op}: with KGEN_JIT=0 the call raises"


def _print_choice(choice: Choice) -> None:
    print(f"  {choice.param} = {choice.value}")
    print(f"    wanted {choice.want} by {choice.source} ({choice.where}), picked {choice.pick}: {choice.why}")
    if choice.built:
        print(f"    built: {', '.join(map(str, choice.built))}")


def _run_rejected(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.variants.explain import explain

    given = pairs(args.values)
    catalog = api.check()
    matrix = api.expand(args.build, args.arch, catalog)
    ops = fitting_ops(matrix, catalog, given)
    values = {name: value for name, value in given.items() if name != "op"}
    found = [explain(matrix, op, values, catalog) for op in ops]
    if args.json:
        print_json([_explanation_json(explanation) for explanation in found])
    else:
        for explanation in found:
            _print_explanation(explanation)
    return 0


def fitting_ops(matrix: Matrix, catalog: Catalog, given: Mapping[str, Scalar]) -> list[OpSpec]:
    """The operator named by `op`, else those of the build that have every parameter given.

    Raises KgenError (K205, K303) where there is none."""
    if "op" in given:
        return [catalog.op(str(given["op"]))]
    names = dict.fromkeys([*(v.op.name for v in matrix.accepted), *(r.op for r in matrix.rejected)])
    ops = [catalog.op(name) for name in names]
    fitting = [op for op in ops if given.keys() <= {param.name for param in op.params}]
    if not fitting:
        known = sorted({param.name for op in ops for param in op.params})
        odd = next((name for name in given if name not in known), None)
        message = f"no operator of build {matrix.build} has all of the parameters {', '.join(given)}"
        raise KgenError(Diagnostic("K303", message, hint=choice_hint(odd, known) if odd else None))
    return fitting


def _explanation_json(found: Explanation) -> Mapping[str, Any]:
    return {
        "build": found.build,
        "op": found.op,
        "given": dict(found.given),
        "accepted": [variant.name for variant in found.accepted],
        "rejected": [rejected_json(entry) for entry in found.rejected],
        "absent": {name: list(values) for name, values in found.absent.items()},
        "rules": [rejected_json(entry) for entry in found.rules],
    }


def _print_explanation(found: Explanation) -> None:
    given = ", ".join(f"{name} = {value}" for name, value in found.given.items())
    print(f"{found.op} with {given}, in build {found.build}")
    for entry in found.rules:
        print_rejected(entry, title=f"  breaks the rule: {entry.rule}")
    for name, values in found.absent.items():
        listed = ", ".join(map(str, values))
        print(f"  {name} = {found.given[name]} is not on an axis of the build, which has {listed}")
    for entry in found.rejected:
        print_rejected(entry, title=f"  rejected: {entry.name}\n    {entry.rule}")
    for variant in found.accepted:
        print(f"  accepted: {variant.name}")
    if not (found.rules or found.absent or found.rejected):
        print("  nothing of it is rejected")
    elif found.absent and not found.rules:
        print("  no rule rejects it: add the value to an axis of the build to get it")
