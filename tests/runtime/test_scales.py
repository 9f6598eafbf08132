"""Scales of 8-bit KV: the largest magnitude becomes the largest code, and what is no scale is refused."""

import pytest
import torch

from kgen.runtime import FLOAT8, KVScales, scales_for
from tests.runtime.samples import refused

KEYS = torch.tensor([[1.0, 448.0, 0.0], [3.5, 7.0, 14.0]])
VALUES = torch.tensor([[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("dtype", "most"),
    [(torch.float8_e4m3fn, 448), (torch.float8_e5m2, 57344), (torch.float8_e4m3fnuz, 240)],
)
def test_the_largest_magnitude_becomes_the_largest_code(dtype, most):
    scales = scales_for(KEYS, VALUES, dtype, room=1.0)
    assert torch.allclose(scales.keys * most, torch.where(KEYS > 0, KEYS, most))
    whole = scales_for(KEYS, VALUES, dtype, per_head=False, room=1.0)
    assert whole.keys.shape == whole.values.shape == (2, 1)
    assert torch.allclose(whole.keys * most, torch.tensor([[448.0], [14.0]]))
    assert whole.values[1].item() == 1.0  # what was always 0
    assert scales.layer(1)[0].equal(scales.keys[1]) and whole.layer(0)[1].equal(whole.values[0])
    scales.check(2, 3)
    whole.check(2, 3)
    assert scales_for(KEYS, VALUES, dtype).keys[0, 0] == 2 * scales.keys[0, 0]  # as large again is held


def test_every_8_bit_float_has_scales_and_nothing_else():
    for dtype in FLOAT8:
        assert dtype.itemsize == 1 and scales_for(KEYS, VALUES, dtype).keys.min() > 0
    with refused("K701", "torch.bfloat16 has no scales"):
        scales_for(KEYS, VALUES, torch.bfloat16)
    with refused("K701", "room is 0.0"):
        scales_for(KEYS, VALUES, FLOAT8[0], room=0.0)
    with refused("K701", "not finite"):
        scales_for(KEYS, VALUES / 0, FLOAT8[0])


def test_what_is_no_scale_is_refused():
    ones = torch.ones(2, 3)
    with refused("K701", "scales of keys are torch.float64 of shape [2, 3]"):
        KVScales(ones.double(), ones)
    with refused("K701", "scales of values are torch.float32 of shape [3]"):
        KVScales(ones, ones[0])
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with refused("K701", "a scale of values is not finite and above 0"):
            KVScales(ones, ones * wrong)
    with refused("K701", "scales of keys are [2, 3]", "[2, 1] or [2, 4]"):
        KVScales(ones, ones).check(2, 4)
    with refused("K701", "expected [3, 1] or [3, 3]"):
        KVScales(ones, ones).check(3, 3)
