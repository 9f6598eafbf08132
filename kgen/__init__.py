"""kgen: a compiler for LLM attention kernels, and the runtime that owns their KV memory."""

__version__ = "0.1.0"


def check() -> None:
    """Raise the first fault kernels reported since the last check (see `kgen.ops.check`)."""
    from kgen import ops

    ops.check()
