"""What the 8-bit floats of KV caches mean, code by code, from their definitions.

A spec names `fp8_e4m3` or `fp8_e5m2`; which of two flavours of it a kernel reads is a property of the
target, and which one a tensor holds is said by its torch dtype. `ocp` (the Open Compute Project's) is that
of hosts, NVIDIA and Hygon; `fnuz` (finite, unsigned zero) that of MI300: its bias is one larger, so that the
same code means half, and its only code beside the finite ones is 0x80, which is NaN. It has no -0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

DTYPES = ("fp8_e4m3", "fp8_e5m2")
SIGN = 0x80


@dataclass(frozen=True)
class Format:
    """One kind of 8-bit float: a sign, `exponent` bits with a bias, `mantissa` bits; `most_code`: the
    code of its largest finite value. `torch`: the name of torch's dtype for it."""

    dtype: str
    flavour: str
    torch: str
    exponent: int
    mantissa: int
    bias: int
    most_code: int

    @property
    def nan(self) -> int:
        """The code that stands for NaN where one is written."""
        return SIGN if self.flavour == "fnuz" else 0x7F

    @property
    def most(self) -> float:
        """The largest finite value."""
        return self.value(self.most_code)

    @property
    def infinite(self) -> bool:
        """Whether there are codes for infinities."""
        return self.flavour == "ocp" and self.dtype == "fp8_e5m2"

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The values of all 256 codes."""
        return tuple(self.value(code) for code in range(256))

    def value(self, code: int) -> float:
        """What a code from 0 to 255 means."""
        magnitude = code & (SIGN - 1)
        if self.flavour == "fnuz" and code == SIGN:
            return math.nan
        if magnitude > self.most_code:
            beyond = math.inf if self.infinite and magnitude == self.most_code + 1 else math.nan
            return -beyond if code & SIGN else beyond
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent:
            fraction += 1 << self.mantissa
        value = math.ldexp(fraction, max(exponent, 1) - self.bias - self.mantissa)
        return -value if code & SIGN else value

    def encode(self, value: float) -> int:
        """The nearest code: ties go to the even one, what is too large (infinities too) to the largest
        finite one; NaN becomes `nan`."""
        if math.isnan(value):
            return self.nan
        sign = SIGN if math.copysign(1.0, value) < 0 else 0
        code = self._magnitude(abs(value))
        return 0 if code == 0 and self.flavour == "fnuz" else sign | code

    def _magnitude(self, value: float) -> int:
        if value >= self.most:
            return self.most_code
        least = 1 - self.bias  # the exponent of the smallest normal value
        exponent = max(math.frexp(value)[1] - 1, least) if value else least
        steps = round(math.ldexp(value, self.mantissa - exponent))  # ties to even, and exact otherwise
        # A carry out of the fraction, or one that makes a subnormal normal, is right as it is.
        return min(steps + ((exponent - least) << self.mantissa), self.most_code)


FORMATS: Mapping[tuple[str, str], Format] = {
    (one.dtype, one.flavour): one
    for one in (
        Format("fp8_e4m3", "ocp", "float8_e4m3fn", exponent=4, mantissa=3, bias=7, most_code=0x7E),
        Format("fp8_e5m2", "ocp", "float8_e5m2", exponent=5, mantissa=2, bias=15, most_code=0x7B),
        Format("fp8_e4m3", "fnuz", "float8_e4m3fnuz", exponent=4, mantissa=3, bias=8, most_code=0x7F),
        Format("fp8_e5m2", "fnuz", "float8_e5m2fnuz", exponent=5, mantissa=2, bias=16, most_code=0x7F),
    )
}
"""By dtype of the specs and flavour."""

BY_TORCH: Mapping[str, Format] = {one.torch: one for one in FORMATS.values()}
"""By the name of torch's dtype."""
