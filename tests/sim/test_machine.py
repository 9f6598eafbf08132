"""What the simulator computes and counts."""

from pathlib import Path

import pytest
import torch


def test_lanes_exchange_what_the_dialect_says(kernels):
    data = torch.zeros(256, 8)
    assert kernels.call("exchanges", data).code == 0
    wave = int(data[:128, 7].max()) + 1
    lane = torch.arange(128) % wave
    first = torch.arange(128) - lane
    t = torch.arange(128).float()
    want = torch.stack(
        [
            wave * first + wave * (wave - 1) / 2,
            (torch.arange(128) // 8 * 8 + 7).float(),
            torch.stack([t[first[i] + lane[i] % 8 : first[i] + wave : 8].sum() for i in range(128)]),
            (first + wave - 1).float(),
            torch.ones(128),
            (torch.arange(128) ^ 2).float(),
            -(torch.arange(128) ^ 2).float(),
            lane.float(),
        ],
        dim=1,
    )
    torch.testing.assert_close(data, torch.cat((want, want)), rtol=0, atol=0)


def test_a_box_lies_in_panels_and_is_there_once_all_have_spoken(kernels):
    data = torch.zeros(8192, dtype=torch.float32)
    halves = torch.arange(32 * 128, dtype=torch.float32).reshape(32, 128) % 2048
    data[:2048] = halves.to(torch.float16).view(-1).view(torch.float32)
    assert kernels.call("brings_a_box", data).code == 0
    assert data[4096:5120].reshape(16, 64).equal(halves[16:, :64])
    assert data[5120:5248].eq(1.0).all()


def test_the_portable_switch_gives_the_same(compiled):
    fast, portable = compiled(64), compiled(64, "-DKGEN_SIM_PORTABLE")
    one, other = torch.zeros(2, 4096)
    assert fast.call("exchanges", one).code == portable.call("exchanges", other).code == 0
    assert one.equal(other) and one.any()
    assert portable.call("skips_a_barrier", one).message == fast.call("skips_a_barrier", one).message


def test_a_kernel_that_rests_holds_no_stacks(kernels):
    """A process has 65,530 mappings, and a block's stacks with their guards are 512 of them."""
    maps = Path("/proc/self/maps")
    before = len(maps.read_text().splitlines())
    assert kernels.call("exchanges", torch.zeros(256, 8)).code == 0
    assert len(maps.read_text().splitlines()) < before + 100


def test_bytes_of_a_wave_count_once_until_it_meets(kernels):
    data = torch.zeros(4096, dtype=torch.int32)
    lanes = torch.zeros(256, 8)
    kernels.call("exchanges", lanes)
    waves = 128 // (int(lanes[:, 7].max()) + 1)
    assert kernels.call("reads_one_word_with_every_lane", data).code == 0
    assert kernels.counter("bytes_read") == 2 * waves * 2 * 4
    assert kernels.call("reads_its_own_16_bytes", data).code == 0
    assert kernels.counter("bytes_read") == 256 * 16
    assert kernels.counter("bytes_written") == 0
    assert kernels.counter("blocks") == 2


def test_an_error_takes_every_write_back_unless_they_are_kept(kernels64):
    data = torch.zeros(4096, dtype=torch.int32)
    answer = kernels64.call("reports_after_writing", data)
    assert (answer.code, answer.error) == (3, (3, 11, 22, 130))  # the first report stays
    assert not data.any()
    kernels64.keep_writes(True)
    try:
        assert kernels64.call("reports_after_writing", data).code == 3
    finally:
        kernels64.keep_writes(False)
    assert data[:256].all() and not data[256:].any()


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("converts_f16", torch.float16), ("converts_bf16", torch.bfloat16)]
)
def test_every_half_widens_exactly(kernels64, kernel, dtype):
    data = torch.zeros(65536)
    assert kernels64.call(kernel, data).code == 0
    want = torch.arange(65536).to(torch.int16).view(dtype).float()
    assert torch.equal(data.nan_to_num(7), want.nan_to_num(7)) and data.isnan().equal(want.isnan())


def floats_to_round():
    """Random bits, ties and the edges of the half formats."""
    generator = torch.Generator().manual_seed(3)
    bits = torch.randint(-(2**31), 2**31, (20000,), generator=generator).int()
    halves = torch.arange(65536).to(torch.int16).view(torch.float16).float()
    ties = (halves[:-1] + halves[1:]) / 2
    edges = torch.tensor([65504.0, 65519.9, 65520.0, 2.0**-24, 2.0**-25, 2.0**-26, 3.38e38, -0.0])
    return torch.cat((bits.view(torch.float32), ties, edges, -edges)).contiguous()


def rounded(kernels, values):
    words = values.clone()
    assert kernels.call("rounds", words).code == 0
    words = words.view(torch.int32)
    return (words & 0xFFFF).to(torch.int16).view(torch.float16), (words >> 16).to(torch.int16).view(
        torch.bfloat16
    )


def test_floats_round_to_nearest_even(kernels64):
    values = floats_to_round()
    for got, dtype in zip(rounded(kernels64, values), (torch.float16, torch.bfloat16), strict=True):
        want = values.to(dtype)
        assert got.isnan().equal(want.isnan())
        assert torch.equal(got.nan_to_num(1).view(torch.int16), want.nan_to_num(1).view(torch.int16))


def test_a_dcu_rounds_bf16_half_away_from_zero(compiled):
    values = floats_to_round()
    _, got = rounded(compiled(64, "-DKGEN_BF16_HALF_UP"), values)
    number = ~values.isnan()
    want = ((values.view(torch.int32) + 0x8000) >> 16).to(torch.int16)
    assert torch.equal(got[number].view(torch.int16), want[number])
    assert got[~number].isnan().all()
