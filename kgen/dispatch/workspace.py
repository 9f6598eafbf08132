"""Scratch memory of kernels: one growing buffer per device and stream, per thread on the CPU.

Two Python threads may call at once, so on the CPU each thread has its own. A buffer only grows, and then at
least doubles. Most of it is never cleared: kernels write a place before they read it. The bytes right before
it are zeros: a kernel finds them so and leaves them so, and they are cleared once, when the buffer is made.
On a GPU a buffer that was outgrown is kept, since a captured graph may still use it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

ALIGNMENT = 64
ZEROED = 65536
"""Bytes of zeros before a workspace."""


@dataclass
class _Buffer:
    """`scratch` follows the zeros in one allocation. `captured`: so far only graphs clear them, when they
    run."""

    address: int
    size: int
    scratch: torch.Tensor
    zeros: torch.Tensor
    captured: bool


class Workspaces:
    """The workspaces of one dispatcher."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._outgrown: list[_Buffer] = []

    def address(self, size: int, device: str = "cpu", stream: int = 0) -> int:
        """The address of at least `size` bytes, aligned to 64, valid until this thread grows it."""
        try:
            held: _Buffer = self._local.buffers[device, stream]
        except (AttributeError, KeyError):
            return self._held(size, device, stream).address
        if held.captured or held.size < size:
            held = self._held(size, device, stream)
        return held.address

    def reserve(self, size: int, device: str = "cpu", stream: int = 0) -> torch.Tensor:
        """Grow this thread's buffer to `size` bytes; returns all of it but the zeros, as bytes."""
        return self._held(size, device, stream).scratch

    def held(self, device: str = "cpu", stream: int = 0) -> int:
        """Usable bytes of this thread's buffer."""
        buffer = self._buffers().get((device, stream))
        return 0 if buffer is None else buffer.size

    def release(self) -> None:
        """Give this thread's buffers back."""
        self._buffers().clear()

    def _held(self, size: int, device: str, stream: int) -> _Buffer:
        buffers = self._buffers()
        held = buffers.get((device, stream))
        if held is None or held.size < size:
            if held is not None:  # twice as much, so that a length that grows outgrows few
                size = max(size, 2 * held.size)
            if held is not None and device != "cpu":
                self._outgrown.append(held)
            held = buffers[device, stream] = _allocate(size, device)
        elif held.captured:
            held.zeros.zero_()
            held.captured = torch.cuda.is_current_stream_capturing()
        return held

    def _buffers(self) -> dict[tuple[str, int], _Buffer]:
        try:
            buffers: dict[tuple[str, int], _Buffer] = self._local.buffers
        except AttributeError:
            buffers = self._local.buffers = {}
        return buffers


def _allocate(size: int, device: str) -> _Buffer:
    whole = torch.empty(ZEROED + ALIGNMENT + size, dtype=torch.uint8, device=device)
    start = ZEROED + -(whole.data_ptr() + ZEROED) % ALIGNMENT
    zeros = whole[:start].zero_()
    captured = device != "cpu" and torch.cuda.is_current_stream_capturing()
    return _Buffer(whole.data_ptr() + start, size, whole[start : start + size], zeros, captured)
