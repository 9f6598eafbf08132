"""The error for a variant that is not built where building is off: what to add, and what is near."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch import codes
from kgen.dispatch.model import Built, Choice, Names, Selection
from kgen.dispatch.registry import Registry
from kgen.manifest import Policy, Scalar
from kgen.semantics import evaluate

NEAREST = 3


def missing_variant(policy: Policy, selection: Selection, registry: Registry, why: str = "") -> KgenError:
    """K520: names the build-spec lines that would add the variant, and the nearest built ones."""
    insisted = [f"{c.param} = {c.value} (from {c.source})" for c in selection.choices if _firm(c)]
    why = why or "building on demand is off (KGEN_JIT=0)"
    message = f"{policy.op}: no built variant fits this call, and {why}"
    notes = [f"the call insists on {text}" for text in insisted]
    near = nearest_kernels(selection.params, registry.kernels(policy.op, {}))
    notes += [f"nearest built: {kernel.entry.name} ({_differences(selection, kernel)})" for kernel in near]
    notes += [] if near else [f"no variant of {policy.op} is built"]
    notes += [f"passed over {skip.name}: {skip.reason}" for skip in registry.skipped()[:NEAREST]]
    hint = "add these lines to a build spec and run `kgen build` on it:\n" + build_lines(
        policy, selection.params
    )
    return KgenError(Diagnostic("K520", message, hint=hint, notes=tuple(notes)))


def build_lines(policy: Policy, params: Names) -> str:
    """The YAML of a build spec's entry for one variant; defaults are left out."""
    axes = [p.name for p in policy.params if not _is_default(policy, p.name, params)]
    lines = ["variants:", f"  - op: {policy.op}", "    axes:"]
    lines += [f"      {name}: [{params[name]}]" for name in axes]
    return "\n".join(f"      {line}" for line in lines)


def nearest_kernels(params: Names, kernels: Iterable[Built]) -> list[Built]:
    """The built kernels that differ least from `params`: fewest parameters, then least far."""
    return sorted(kernels, key=lambda kernel: (_distance(params, kernel.entry.params), kernel.entry.name))[
        :NEAREST
    ]


def _firm(choice: Choice) -> bool:
    return choice.source == "argument" or choice.source.isupper()


def _is_default(policy: Policy, name: str, params: Names) -> bool:
    rule = codes.param(policy, name)
    if rule is None or rule.default is None or name in codes.free_params(policy):
        return False
    others: dict[str, Scalar] = {key: value for key, value in params.items() if key != name}
    return codes.known(rule.default, others) and evaluate(rule.default, others) == params[name]


def _distance(params: Names, other: Names) -> tuple[int, float]:
    different = [(params[name], other.get(name)) for name in params if params[name] != other.get(name)]
    return len(different), sum(_gap(a, b) for a, b in different)


def _gap(a: Scalar, b: Scalar | None) -> float:
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return abs(float(a) - float(b)) / (1 + abs(float(a))) if numbers else 1.0  # type: ignore[arg-type]


def _differences(selection: Selection, kernel: Built) -> str:
    params, other = selection.params, kernel.entry.params
    different = [
        f"{name} {other.get(name)}, not {value}" for name, value in params.items() if value != other.get(name)
    ]
    return "; ".join(different) or "the same parameters"
