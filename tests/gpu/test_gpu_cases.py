"""Every case of the operators' specs, on a sample of variants in which all pairs of values occur."""

from pathlib import Path

import pytest

from kgen import api, ops
from kgen.diagnostics import KgenError
from kgen.testing.memory import HUGE, STRIDED, same_bits
from kgen.testing.runner import ADAPTERS, cases, compare, expect, materialise
from kgen.testing.variants import sampled
from tests.gpu import gpu_device as device

VARIANTS = sampled(api.expand(Path(__file__).with_name("cases.yaml")).accepted)
WORKSPACE = 1 << 22


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_results_are_exact_and_do_not_depend_on_unused_memory(variant):
    for case in cases(variant):
        inputs = materialise(case)
        outputs = ADAPTERS[variant.op.name].outputs
        expected = expect(inputs)
        device.poison_workspace(WORKSPACE)
        device.run(inputs)
        assert compare(expected, {name: inputs[name] for name in outputs}) == []
        twin = ADAPTERS[variant.op.name].materialise(case, STRIDED, HUGE)
        device.run(twin)
        for name, placed in inputs.placed.items():
            assert same_bits(inputs[name], twin[name]) or name not in outputs, f"{case.name}: {name}"
            assert not (placed.spilled() if name in outputs else placed.changed()), f"{case.name}: {name}"
    ops.check()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_faults_are_reported_and_nothing_outside_is_written(variant):
    adapter = ADAPTERS[variant.op.name]
    case = cases(variant)[0]
    for fault in adapter.faults(materialise(case)):
        inputs = materialise(case)
        fault.spoil(inputs)
        device.run(inputs)
        with pytest.raises(KgenError):
            ops.check()
        assert not any(inputs.placed[name].spilled() for name in adapter.outputs), fault.name
        ops.check()  # told once
