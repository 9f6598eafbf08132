"""Selection among what is built and what can be: no variant that would be rejected is asked for where a
smaller one serves in passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kgen.diagnostics import Diagnostic
from kgen.dispatch.model import Bound, Built, Choice, Names, Selection
from kgen.dispatch.select import TUNED, select
from kgen.dispatch.tuning import Tuning
from kgen.manifest import Policy, Scalar

Reject = Callable[[str, Names], Diagnostic | None]
"""An operator and parameters -> why the variant is never generated, None where it can be."""


def select_buildable(
    policy: Policy, bound: Bound, built: Sequence[Built], jit: bool, tuning: Tuning, reject: Reject
) -> Selection:
    """The selection among kernels of one arch. With `jit`, where the variant it wishes for would be rejected,
    a parameter that serves in passes takes the next smaller value. Where none helps it is the wish itself,
    whose rejection says why. Raises KgenError as `select`."""
    choose = partial(
        select,
        policy,
        bound,
        built,
        jit=jit,
        tuning=tuning.classes(policy, bound.names),
        usable=tuning.usable(policy, built, jit),
    )
    wish = found = choose()
    refused: dict[str, set[Scalar]] = {}
    while jit and found.kernel is None and reject(policy.op, found.params) is not None:
        lower = [c for c in found.choices if _serves_in_passes(c) and c.value not in refused.get(c.param, ())]
        if not lower:
            return wish
        refused.setdefault(lower[0].param, set()).add(lower[0].value)
        found = choose(refused=refused)
    return found


def _serves_in_passes(choice: Choice) -> bool:
    """Whether a smaller value would do: a policy wished for it, and kernels take the rest in passes."""
    insisted = choice.source in ("argument", TUNED) or choice.source.isupper()
    return choice.pick == "at_least" and not insisted
