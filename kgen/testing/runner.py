"""Runs the spec-driven cases: the same code behind `kgen test` and pytest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import ops
from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch.errors import STOPPED
from kgen.spec.evaluate import environment, evaluate_expr
from kgen.targets.host import host_features
from kgen.testing.attention import PagedAttention
from kgen.testing.blocks import CopyBlocks, SwapBlocks
from kgen.testing.cache import ReshapeAndCache
from kgen.testing.case import Adapter, Case, Expected, Inputs, Outcome
from kgen.testing.device import device_for, no_device, on_gpu, run_on
from kgen.testing.extend import ExtendAttention
from kgen.testing.memory import HUGE, LOOSE, NAN, PLAIN, STRIDED, Form, Placed, same_bits
from kgen.testing.merge import MergeStates
from kgen.testing.rows import check_rows
from kgen.variants.model import Variant

ADAPTERS: Mapping[str, Adapter] = {
    "paged_attention": PagedAttention(),
    "extend_attention": ExtendAttention(),
    "merge_states": MergeStates(),
    "reshape_and_cache": ReshapeAndCache(),
    "copy_blocks": CopyBlocks(),
    "swap_blocks": SwapBlocks(),
}


def cases(variant: Variant) -> list[Case]:
    """The cases the operator's spec asks of this variant.

    Raises KgenError (K583) where the harness does not know the operator, K20x where not its rows."""
    if variant.op.tests and variant.op.name not in ADAPTERS:
        hint = f"operators with cases: {', '.join(ADAPTERS)}"
        raise KgenError(Diagnostic("K583", f"no test harness knows {variant.op.name}", hint=hint))
    check_rows(variant.op)
    env = environment(variant.op, variant.params, variant.target)
    found = []
    for test in variant.op.tests:
        if test.when is None or evaluate_expr(test.when, env):
            values = {name: _value(value, env) for name, value in test.values.items()}
            for name, concrete in ADAPTERS[variant.op.name].shapes(test.name, values):
                found.append(Case(name, variant, concrete))
    return found


def unrunnable(variant: Variant) -> str:
    """Why this machine cannot run the variant; empty where it can."""
    if variant.simulated:
        return ""
    if on_gpu(variant):
        return no_device(variant.target.name)
    lacking = [flag for flag in variant.target.requires if flag not in host_features()]
    return f"host lacks {', '.join(lacking)}" if lacking else ""


def materialise(case: Case, form: Form = PLAIN) -> Inputs:
    """The case in memory, poisoned with NaN."""
    return ADAPTERS[case.variant.op.name].materialise(case, form, NAN)


def run(inputs: Inputs) -> Mapping[str, Tensor]:
    """Run exactly the case's variant; the outputs by name. Raises KgenError for what a call refuses, and
    for what a kernel reports."""
    variant = inputs.case.variant
    adapter = ADAPTERS[variant.op.name]
    device = device_for(variant.target.name) if on_gpu(variant) else None
    if device is None:
        adapter.run(inputs)
    else:
        run_on(device, adapter, inputs)
    return {name: inputs[name] for name in adapter.outputs}


def expect(inputs: Inputs) -> Mapping[str, Expected]:
    """The exact results of a call that has not been made yet."""
    return ADAPTERS[inputs.case.variant.op.name].expect(inputs)


def compare(expected: Mapping[str, Expected], got: Mapping[str, Tensor]) -> list[str]:
    """One line for each output that is wrong: where it is worst, and what was allowed there."""
    found = []
    for name, want in expected.items():
        if want.bound is None:
            if not same_bits(want.value, got[name]):
                found.append(f"{name}: {_first_difference(want.value, got[name])}")
            continue
        problem = _worst(want.value, got[name].double(), want.bound)
        if problem:
            found.append(f"{name}{problem}")
    return found


def check(case: Case) -> Outcome:
    """Compare with the oracle; then the same call in other memory must give the same bits; then
    every faulty call must raise and write nothing (on a GPU: nothing but its outputs)."""
    why = unrunnable(case.variant)
    if why:
        return Outcome(case.variant.name, case.name, skipped=why)
    start = time.perf_counter()
    try:
        problems = _problems(case)
    except KgenError as error:
        problems = [f"raised {error}"]
    return Outcome(case.variant.name, case.name, tuple(problems), seconds=time.perf_counter() - start)


def _problems(case: Case) -> list[str]:
    before = ops.dispatcher().calls()
    inputs = materialise(case)
    expected = expect(inputs)
    got = run(inputs)
    problems = compare(expected, got) + _strays(inputs) + _twin(case, got) + _faults(case)
    return problems + _strangers(case, before)


def _strangers(case: Case, before: Mapping[str, int]) -> list[str]:
    """Kernels other than the case's variant that ran since."""
    after = ops.dispatcher().calls()
    ran = [name for name, count in after.items() if count != before.get(name, 0)]
    return [f"{name} ran in place of the variant" for name in ran if name != case.variant.name]


def _twin(case: Case, got: Mapping[str, Tensor]) -> list[str]:
    form = LOOSE if case.variant.target.family == "cpu" else STRIDED
    twin = ADAPTERS[case.variant.op.name].materialise(case, form, HUGE)
    again = run(twin)
    changed = [name for name in got if not same_bits(got[name], again[name])]
    return [f"{name}: bits change with unused memory or strides" for name in changed] + _strays(twin)


def _strays(inputs: Inputs) -> list[str]:
    """Writes outside the outputs."""
    outputs = ADAPTERS[inputs.case.variant.op.name].outputs
    found = []
    for name, placed in inputs.placed.items():
        if name in outputs and placed.spilled():
            found.append(f"{name}: written outside of its own elements")
        if name not in outputs and placed.changed():
            found.append(f"{name}: an input was written")
    return found


def _faults(case: Case) -> list[str]:
    adapter = ADAPTERS[case.variant.op.name]
    found = []
    for fault in adapter.faults(materialise(case)):
        inputs = materialise(case)
        fault.spoil(inputs)
        try:
            run(inputs)
        except KgenError as error:
            if error.diagnostics[0].code == STOPPED:  # the kernel went on without seeing what is wrong
                found.append(f"{fault.name}: not refused, {error.diagnostics[0].message}")
            wrong = Placed.spilled if on_gpu(case.variant) else Placed.changed
            found += [
                f"{fault.name}: {name} was written before the error"
                for name in adapter.outputs
                if wrong(inputs.placed[name])
            ]
        else:
            found.append(f"{fault.name}: not refused")
    return found


def _worst(want: Tensor, got: Tensor, bound: Tensor) -> str:
    excess = (got - want).abs() - bound
    excess = torch.where(got == want, -1.0, excess.nan_to_num(nan=torch.inf))
    if excess.numel() == 0 or excess.max() <= 0:
        return ""
    flat = int(excess.argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(flat), excess.shape)]
    exact, value, allowed = (float(t.flatten()[flat]) for t in (want, got, bound.expand_as(want)))
    wrong = int((excess > 0).sum())
    return f"{place}: got {value:.9g}, exact {exact:.9g}, allowed {allowed:.3g} ({wrong} elements are off)"


def _first_difference(want: Tensor, got: Tensor) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"got {tuple(got.shape)} {got.dtype}, expected {tuple(want.shape)} {want.dtype}"
    differs = ~((want == got) | ((want != want) & (got != got)))
    if not differs.any():
        return "bits differ where values are equal"
    place = differs.nonzero()[0].tolist()
    return f"first difference at {place}, {int(differs.sum())} elements differ"


def _value(value: object, env: Mapping[str, Any]) -> Any:
    """A value of a `tests` row: lists item by item, expressions evaluated, the rest as it is."""
    if isinstance(value, list | tuple):
        return [_value(item, env) for item in value]
    if isinstance(value, int | float | str):
        return value
    return evaluate_expr(value, env)  # type: ignore[arg-type]
