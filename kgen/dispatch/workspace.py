"""Scratch memory of kernels: one growing buffer per device and stream, per thread on the CPU.

Two Python threads may call at once, so on the CPU each thread has its own. A buffer only grows,
and is never cleared: kernels write a place before they read it. On a GPU one that was outgrown is
kept, since a captured graph may still use it.
"""

from __future__ import annotations

import threading

import torch

ALIGNMENT = 64


class Workspaces:
    """The workspaces of one dispatcher."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._outgrown: list[torch.Tensor] = []

    def address(self, size: int, device: str = "cpu", stream: int = 0) -> int:
        """The address of at least `size` bytes, aligned to 64, valid until this thread grows it."""
        base = self.reserve(size, device, stream).data_ptr()
        return base + -base % ALIGNMENT

    def reserve(self, size: int, device: str = "cpu", stream: int = 0) -> torch.Tensor:
        """Grow this thread's buffer to `size` bytes; returns all of it, as bytes."""
        buffers = self._buffers()
        held = buffers.get((device, stream))
        if held is None or held.numel() < size + ALIGNMENT:
            if held is not None and device != "cpu":
                self._outgrown.append(held)
            held = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device=device)
            buffers[device, stream] = held
        return held

    def held(self, device: str = "cpu", stream: int = 0) -> int:
        """Usable bytes of this thread's buffer."""
        buffer = self._buffers().get((device, stream))
        return 0 if buffer is None else buffer.numel() - ALIGNMENT

    def release(self) -> None:
        """Give this thread's buffers back."""
        self._buffers().clear()

    def _buffers(self) -> dict[tuple[str, int], torch.Tensor]:
        try:
            buffers: dict[tuple[str, int], torch.Tensor] = self._local.buffers
        except AttributeError:
            buffers = self._local.buffers = {}
        return buffers
