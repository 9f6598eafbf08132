"""What counts as a spill of an AMD kernel."""

import pytest

from kgen.build.readback import _amd


@pytest.mark.parametrize(("scratch", "spills"), [(0, 0), (64, 16)])
def test_registers_that_stay_on_the_chip_are_no_spill(scratch: int, spills: int):
    kernel = {
        ".name": "k",
        ".vgpr_spill_count": 2,
        ".sgpr_spill_count": 9,
        ".private_segment_fixed_size": scratch,
    }
    found = _amd({"amdhsa.kernels": [kernel]}, "k")
    assert (found["spills"], found["scratch_bytes"]) == (spills, scratch)
