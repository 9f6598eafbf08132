"""What the simulator counted in the last call of a variant."""

import ctypes

from kgen import ops


def counter(op: str, variant: str, name: str) -> int:
    dispatcher = ops.dispatcher()
    kernels = {kernel.entry.name: kernel for kernel in dispatcher.registry.kernels(op, {})}
    library = dispatcher.registry.load(kernels[variant]).library
    library.kgen_sim_counter.restype = ctypes.c_int64
    return library.kgen_sim_counter(name.encode())
