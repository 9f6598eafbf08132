"""Which values a parameter may have, and what is said of one it may not."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.diagnostics import Diagnostic, Span, choice_hint
from kgen.manifest import Scalar
from kgen.semantics import DTYPES
from kgen.spec.model import OpSpec, Param, TargetSpec
from kgen.targets.host import arch_choices

Targets = Mapping[str, TargetSpec]


def words(param: Param, op: OpSpec, targets: Targets) -> tuple[str, ...] | None:
    """The words a parameter may be, or None where its values are numbers or truth values."""
    if param.type == "target":
        return arch_choices(targets)
    if param.type == "layout":
        return tuple(op.layouts)
    if param.type == "variant":
        return tuple(op.variants)
    if param.type in ("dtype", "enum"):
        return tuple(str(v) for v in param.values) or (tuple(DTYPES) if param.type == "dtype" else ())
    return None


def check_value(
    param: Param, value: Scalar, op: OpSpec, targets: Targets, span: Span | None = None
) -> Diagnostic | None:
    """What is wrong with a value (K304), or None. `span` is where the value stands."""
    allowed = words(param, op, targets)
    if allowed is not None:
        if isinstance(value, str) and value in allowed:
            return None
        message = f"{_show(value)} is no {param.name} of {op.name}"
        return Diagnostic("K304", message, span, choice_hint(str(value), allowed))
    if not _typed(param, value):
        message = f"{param.name} of {op.name} is {_a(param.type)}; {_show(value)} is not"
        return Diagnostic("K304", message, span)
    if param.values and value not in param.values:
        listed = ", ".join(_show(v) for v in param.values)
        message = f"{_show(value)} is no {param.name} of {op.name}"
        return Diagnostic(
            "K304", message, span, f"the nearest is {_nearest(param, value)}; choices: {listed}"
        )
    return _check_bounds(param, value, op, span)


def _check_bounds(param: Param, value: Scalar, op: OpSpec, span: Span | None) -> Diagnostic | None:
    low, high = param.minimum, param.maximum
    if not isinstance(value, int | float):
        return None
    if (low is None or value >= low) and (high is None or value <= high):
        return None
    bounds = [f"at least {low}" if low is not None else "", f"at most {high}" if high is not None else ""]
    limits = " and ".join(bound for bound in bounds if bound)
    close = low if low is not None and value < low else high
    return Diagnostic(
        "K304",
        f"{param.name} of {op.name} must be {limits}; this is {value}",
        span,
        f"the nearest is {close}",
    )


def _typed(param: Param, value: Scalar) -> bool:
    if param.type == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (param.type == "float" and isinstance(value, float))


def _nearest(param: Param, value: Scalar) -> str:
    def distance(choice: Scalar) -> float:
        numbers = isinstance(choice, int | float) and isinstance(value, int | float)
        return abs(float(choice) - float(value)) if numbers else 0.0

    return _show(min(param.values, key=distance))


def _show(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
