"""Cases on a GPU: the same memory, poison included, moved there for the call and back.

A GPU call does not wait, so what it finds faulty is reported later (`kgen.ops.check`); rows that it
could not compute are NaN or unwritten by then, and nothing outside the outputs is.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kgen import ops
from kgen.dispatch import gpu
from kgen.testing.case import Adapter, Inputs
from kgen.testing.memory import Placed
from kgen.variants.model import Variant


def on_gpu(variant: Variant) -> bool:
    """Whether the variant is for tensors on a GPU."""
    return variant.target.family != "cpu" and not variant.simulated


def device_for(target: str) -> str | None:
    """The first GPU here that is of a target, as torch names it; None where there is none."""
    return next((device for device, arch in _devices().items() if arch == target), None)


def no_device(target: str) -> str:
    """Why a target's kernels cannot run here; empty where they can."""
    found = _devices()
    if target in found.values():
        return ""
    others = ", ".join(f"{device} is {arch}" for device, arch in found.items())
    return f"no {target} device" + (f" ({others})" if others else "")


def _devices() -> dict[str, str]:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {f"cuda:{index}": gpu.arch_of(f"cuda:{index}") for index in range(count)}


def run_on(device: str, adapter: Adapter, inputs: Inputs) -> None:
    """Make the call on a device. Whatever it could have written comes back before what it reported is
    raised (KgenError)."""
    there = replace(inputs, placed={name: moved(placed, device) for name, placed in inputs.placed.items()})
    adapter.run(there)
    for name, placed in inputs.placed.items():
        placed.storage.copy_(there.placed[name].storage)  # waits for the call
    ops.check()


def moved(placed: Placed, device: str) -> Placed:
    """A copy on a device with the same poison around and the same strides."""
    storage = placed.storage.to(device, copy=True)
    tensor = placed.tensor
    return Placed(storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()), storage, None)
