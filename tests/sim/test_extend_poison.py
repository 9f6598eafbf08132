"""On a chip an error takes no write back: rows that a bad page, or a bad length, spoils must be NaN there."""

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.operators import OPERATORS

DIM, HEADS, KV_HEADS, NEW, PREFIX = 64, 4, 2, 9, 90


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


class Call:
    """Two sequences of PREFIX tokens in the pool and NEW behind them, the first one's page `bad` of none."""

    def __init__(self, arch, block_size, bad):
        pages = -(-(PREFIX + NEW) // block_size)
        indices = torch.arange(2 * pages, dtype=torch.int32)
        indices[bad // block_size] = 2 * pages
        self.out = torch.zeros(2 * NEW, HEADS, DIM, dtype=torch.bfloat16)
        generator = torch.Generator().manual_seed(3)
        q = torch.randn(self.out.shape, generator=generator).to(self.out.dtype)
        k, v = torch.randn(2, 2 * pages, block_size, KV_HEADS, DIM, generator=generator).to(self.out.dtype)
        self.arguments = (
            *(self.out, None, q, k, v, None, None),
            *(ints(0, NEW, 2 * NEW), ints(0, pages, 2 * pages), indices, ints(*2 * (PREFIX + NEW,))),
            *(None, None, 0.125, NEW, PREFIX + NEW, block_size, "bshd", None, arch),
        )

    def run(self):
        """The simulator's library keeps what was written before the error, as a chip does."""
        dispatcher, operator = ops.dispatcher(), OPERATORS["extend_attention"]
        library = dispatcher.plan(operator, *self.arguments).keep.library
        library.kgen_sim_keep_writes(1)
        try:
            dispatcher.caller(operator)(*self.arguments)
        finally:
            library.kgen_sim_keep_writes(0)


@pytest.mark.parametrize(
    ("arch", "block_size"), [("sim:sm_90", 16), ("sim:sm_90", 1), ("sim:gfx942", 16)], ids=str
)
@pytest.mark.parametrize("bad", [0, 70, PREFIX + 2])
def test_rows_that_see_a_page_of_none_are_nan_and_no_others(arch, block_size, bad):
    call = Call(arch, block_size, bad)
    with pytest.raises(KgenError, match="K531"):
        call.run()
    assert call.out[:NEW].isnan().all()
    assert call.out[NEW:].isfinite().all() and call.out[NEW:].any()
