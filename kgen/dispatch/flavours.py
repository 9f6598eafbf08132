"""8-bit floats of a call: which of the two flavours its tensors hold, against what kernels read.

The same code means half as much in one flavour as in the other, so a call whose tensors are not of the
target's flavour is refused, never converted.
"""

from __future__ import annotations

from collections.abc import Mapping

from kgen.dispatch.errors import fault
from kgen.dispatch.model import Bound, Names
from kgen.fp8 import BY_TORCH, FORMATS
from kgen.manifest import FLAVOUR, ParamRule, Policy


def disagreement(held: Mapping[str, str]) -> str:
    """What is wrong where the tensors of a call (argument -> torch dtype) are of two flavours; else empty."""
    if len({BY_TORCH[name].flavour for name in held.values()}) < 2:
        return ""
    listed = (f"{argument} {name} ({BY_TORCH[name].flavour})" for argument, name in held.items())
    return f"the arguments hold 8-bit floats of two flavours: {', '.join(listed)}"


def check_flavour(policy: Policy, bound: Bound, names: Names) -> None:
    """Raise KgenError (K511) where kernels of the chosen target read another flavour than the call holds."""
    if not bound.fp8:
        return
    arguments, held = " and ".join(bound.fp8), BY_TORCH[next(iter(bound.fp8.values()))]
    arch, wanted = names["arch"], str(names.get(FLAVOUR, "none"))
    if held.flavour == wanted:
        return
    message = f"{policy.op}: {arguments} hold {held.flavour} floats ({held.torch}); kernels of {arch} read"
    other = FORMATS.get((held.dtype, wanted))
    if other is None:
        raise fault("K511", f"{message} no 8-bit floats", "keep the cache in 16 bits")
    hint = (
        f"allocate the cache as torch.{other.torch} and write it there: a code of one flavour means half or "
        "twice as much in the other"
    )
    raise fault("K511", f"{message} {wanted} ones ({other.torch})", hint)


def hint_for_bytes(rule: ParamRule | None) -> str | None:
    """What to do with a tensor of bytes where 8-bit floats are wanted; None where they are not."""
    names = [one.torch for one in FORMATS.values() if rule is not None and one.dtype in rule.values]
    if not names:
        return None
    return f"bytes do not say what they mean: view them as one of torch.{', torch.'.join(names)}"
