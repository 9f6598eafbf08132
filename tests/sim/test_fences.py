"""Kernels that join pieces of rows without one of the fences and barriers they join by: each is missed."""

import ctypes
import re
from dataclasses import replace

import pytest
import torch

from kgen.build.shared import build_for_target
from kgen.diagnostics import KgenError
from kgen.render.emit import render
from kgen.spec.load import load_catalog
from kgen.variants.matrix import make_variant
from tests.dispatch.batch import Batch, close
from tests.sim.even_call import Call

FORMS = {  # name: architecture, dtype, heads served at once
    "lanes": ("sm_90", torch.float32, 4),
    "lanes of waves of 64": ("gfx936", torch.float32, 4),
    "matrix": ("gfx942", torch.bfloat16, 4),
    "matrix, turned": ("sm_80", torch.bfloat16, 4),
    "teams": ("sm_90", torch.bfloat16, 12),
    "a team of 64 rows": ("sm_90", torch.bfloat16, 64),
    "two of them": ("sm_90", torch.bfloat16, 128),
}
LENGTHS = [2900, 300, 700]
"""The first is in more pieces than are joined in one round where there are many workers; some shares begin in
one row and end in another."""
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}
FENCE = re.compile(r"kgen::device_(?:release|acquire)\(\);")
BARRIER = re.compile(r"kgen::(?:block|group)_sync\(\);")
RACE = re.compile(r"device memory race, read after write: element \d+ of piece_(?:out|states) was touched by")
SWITCH = 'extern "C" {{ __attribute__((visibility("default"))) int removed = {none}; }}\n'


class Mutants:
    """The kernel of a form, each of whose fences can be removed, and each barrier beside one."""

    def __init__(self, arch, dtype, reuse):
        batch = Batch(LENGTHS, heads=reuse, kv_heads=1, dtype=dtype)
        self.call = Call(batch, f"sim:{arch}", reuse)
        catalog = load_catalog()
        params = dict(self.call.plan.selection.params)
        rendered = render(make_variant(catalog.ops["paged_attention"], params, catalog))
        self.removable, text = _switched(rendered.text)
        path = build_for_target(
            text,
            f"{rendered.symbol}_fences",
            catalog.targets[arch],
            symbol=rendered.symbol,
            headers=rendered.headers,
            simulated=True,
        )
        self.library = ctypes.CDLL(str(path))
        self.library.kgen_sim_message.restype = ctypes.c_char_p
        entry = getattr(self.library, rendered.symbol)
        self.call.plan = replace(self.call.plan, address=ctypes.cast(entry, ctypes.c_void_p).value)

    def fault(self, removed, workers, backwards):
        """What the simulator says of a call without statement `removed`, -1 for none; empty for nothing."""
        ctypes.c_int.in_dll(self.library, "removed").value = removed
        self.library.kgen_sim_backwards(backwards)
        try:
            self.call.run(workers)
        except KgenError:
            return self.library.kgen_sim_message().decode()
        finally:
            self.library.kgen_sim_backwards(0)
        return ""


def _switched(text):
    """The text with a switch at each fence and at each barrier beside a fence or an announcement, and these
    lines."""
    lines = text.splitlines()
    joins = [i for i, line in enumerate(lines) if FENCE.search(line) or "announce(a," in line]
    found = []
    for i, line in enumerate(lines):
        near = any(abs(i - other) <= 2 for other in joins)
        statement = FENCE.search(line) or (BARRIER.search(line) if near else None)
        if statement is not None:
            lines[i] = line.replace(statement[0], f"if (removed != {len(found)}) {statement[0]}")
            found.append(line.strip())
    return found, SWITCH.format(none=-1) + "\n".join(lines) + "\n"


@pytest.fixture(scope="module", params=FORMS)
def mutants(request):
    return Mutants(*FORMS[request.param])


RUNS = [(workers, backwards) for workers in (10**6, 4, 2) for backwards in (0, 1)]


def test_what_has_all_of_them_is_right_and_no_race(mutants):
    want, want_lse = mutants.call.batch.expected()
    for workers, backwards in RUNS:
        assert mutants.fault(-1, workers, backwards) == ""
        close(mutants.call.out, want, 8e-3)
        close(mutants.call.lse, want_lse, 1e-4)


def test_each_fence_and_barrier_is_missed(mutants):
    fences = [i for i, line in enumerate(mutants.removable) if FENCE.search(line)]
    assert len(fences) >= 5
    for i, line in enumerate(mutants.removable):
        said = next(filter(None, (mutants.fault(i, workers, backwards) for workers, backwards in RUNS)), "")
        assert said, f"nothing misses {line}"
        if i in fences:
            assert RACE.search(said), said
