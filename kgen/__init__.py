"""kgen: a compiler for LLM attention kernels, and the runtime that owns their KV memory."""

__version__ = "0.1.0"
