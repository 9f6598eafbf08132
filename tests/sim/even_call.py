"""A call of decode in even shares that a test may deal to fewer workers, or to another kernel."""

import ctypes
import math
from dataclasses import replace

import torch

from kgen import ops
from kgen.dispatch import plain
from kgen.dispatch.operators import OPERATORS
from kgen.dispatch.plan import Moves

EVEN = -1


class Call:
    """A call of even shares that a test may give fewer workers than the chip has."""

    def __init__(self, batch, arch, reuse=4, scale=None):
        self.batch, self.reuse = batch, reuse
        self.operator = OPERATORS["paged_attention"]
        self.dispatcher = ops.dispatcher()
        self.out = torch.empty_like(batch.q)
        self.lse = torch.empty(batch.q.shape[:2])
        tensors = (self.out, self.lse, *batch.tensors(), None, None)  # no scales
        rest = (scale, batch.max_seq_len, "bshd", EVEN, reuse, None, None, arch)
        self.arguments = (*tensors, *rest)
        self.plan = self.dispatcher.plan(self.operator, *self.arguments)
        self.pointers = tuple(0 if tensor is None else tensor.data_ptr() for tensor in tensors)

    def workers(self, count):
        """The same call dealt to at most so many a head."""
        place = [word.name for word in self.plan.policy.words].index("max_shares")
        words = list(self.plan.words)
        words[place] = min(words[place], count)
        return replace(self.plan, words=tuple(words), moves=Moves())

    def run(self, count=10**6):
        """The results, all of them written by this call, and that every count of arrivals is 0 again."""
        self.out.fill_(math.nan), self.lse.fill_(math.nan)
        size = self.plan.workspace_size
        self.dispatcher.workspaces.reserve(size).fill_(0xFF)
        signature, services = (
            self.dispatcher.signature(self.operator),
            self.dispatcher.services(self.operator),
        )
        ready = plain.ready_plan(self.workers(count))
        values = plain.values_of(signature, self.arguments)
        plain.run_plan(ready, signature, services, self.pointers, values)
        assert not self.zeros().any()
        return self.out.clone(), self.lse.clone()

    def zeros(self):
        offset = min(self.plan.workspace.values())
        if offset >= 0:
            return torch.zeros(0, dtype=torch.uint8)  # nothing is counted
        base = self.dispatcher.workspaces.address(self.plan.workspace_size)
        return torch.frombuffer((ctypes.c_uint8 * -offset).from_address(base + offset), dtype=torch.uint8)

    def pieces(self):
        """How many pieces of rows the last call wrote, under all heads."""
        places = {word.name: place for place, word in enumerate(self.plan.policy.words)}
        begin, size = self.plan.workspace[places["piece_states"]], self.plan.workspace_size
        end = min(at for at in (*self.plan.workspace.values(), size) if at > begin)
        base = self.dispatcher.workspaces.address(size)
        states = torch.frombuffer(
            (ctypes.c_int32 * ((end - begin) // 4)).from_address(base + begin), dtype=torch.int32
        )
        return int((states.view(-1, 2 * self.reuse)[:, 0] != -1).sum())

    def library(self):
        return self.plan.keep.library
