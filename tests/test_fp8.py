"""The 8-bit floats against their definitions, and against torch's reading of them."""

from __future__ import annotations

import math

import pytest
import torch

from kgen.fp8 import BY_TORCH, FORMATS, Format

EVERY = list(FORMATS.values())
NAMES = [one.torch for one in EVERY]


@pytest.mark.parametrize("one", EVERY, ids=NAMES)
def test_every_code_means_what_torch_reads(one: Format) -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    read = codes.view(getattr(torch, one.torch)).double()
    ours = torch.tensor(one.values, dtype=torch.float64)
    torch.testing.assert_close(ours, read, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(ours[~ours.isnan()]), torch.signbit(read[~read.isnan()]))


@pytest.mark.parametrize("one", EVERY, ids=NAMES)
def test_every_finite_code_round_trips(one: Format) -> None:
    finite = [code for code in range(256) if math.isfinite(one.value(code))]
    assert [one.encode(one.value(code)) for code in finite] == finite


@pytest.mark.parametrize("one", EVERY, ids=NAMES)
def test_values_between_codes_go_to_the_nearest_and_ties_to_even(one: Format) -> None:
    for code in range(one.most_code):
        low, high = one.value(code), one.value(code + 1)
        middle = (low + high) / 2  # exact in a double
        even = code if code % 2 == 0 else code + 1
        assert one.encode(math.nextafter(middle, 0)) == code
        assert one.encode(math.nextafter(middle, math.inf)) == code + 1
        assert one.encode(middle) == even
        mirrored = one.encode(-middle)
        assert mirrored == (0 if even == 0 and one.flavour == "fnuz" else 0x80 | even)


@pytest.mark.parametrize(
    ("torch_name", "most", "least", "nan"),
    [
        ("float8_e4m3fn", 448.0, 2.0**-9, 0x7F),
        ("float8_e5m2", 57344.0, 2.0**-16, 0x7F),
        ("float8_e4m3fnuz", 240.0, 2.0**-10, 0x80),
        ("float8_e5m2fnuz", 57344.0, 2.0**-17, 0x80),
    ],
)
def test_the_ends_of_the_range(torch_name: str, most: float, least: float, nan: int) -> None:
    one = BY_TORCH[torch_name]
    assert (one.most, one.value(1), one.nan) == (most, least, nan)
    for large in (most * 1.01, 1e30, math.inf):
        assert one.encode(large) == one.most_code
        assert one.encode(-large) == 0x80 | one.most_code
    assert one.encode(math.nan) == one.encode(-math.nan) == nan
    assert math.isnan(one.value(nan))
    assert one.encode(0.0) == 0
    assert one.encode(-0.0) == (0 if one.flavour == "fnuz" else 0x80)
    assert one.encode(5e-324) == 0


def test_the_same_code_means_half_in_the_other_flavour() -> None:
    for dtype in ("fp8_e4m3", "fp8_e5m2"):
        ocp, fnuz = FORMATS[dtype, "ocp"], FORMATS[dtype, "fnuz"]
        assert [fnuz.value(c) * 2 for c in range(1, ocp.most_code)] == [
            ocp.value(c) for c in range(1, ocp.most_code)
        ]
