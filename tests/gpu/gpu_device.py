"""Spec-driven cases on a device: the same memory, poison included, moved there and back."""

from dataclasses import replace

import torch

from kgen import ops
from kgen.testing.case import Inputs
from kgen.testing.memory import Placed
from kgen.testing.runner import ADAPTERS

DEVICE = "cuda:0"


def moved(placed: Placed) -> Placed:
    """A copy on the device with the same poison around and the same strides."""
    storage = placed.storage.to(DEVICE)
    tensor = placed.tensor
    return Placed(storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()), storage, None)


def run(inputs: Inputs) -> None:
    """Run the case's variant on the device; everything it could have written comes back."""
    there = replace(inputs, placed={name: moved(placed) for name, placed in inputs.placed.items()})
    ADAPTERS[inputs.case.variant.op.name].run(there)
    torch.cuda.synchronize()
    for name, placed in inputs.placed.items():
        placed.storage.copy_(there.placed[name].storage)


def poison_workspace(size: int) -> None:
    """Fill the scratch memory of the current stream with NaN."""
    stream = torch.cuda.current_stream().cuda_stream
    ops.dispatcher().workspaces.reserve(size, DEVICE, stream).fill_(0xFF)
