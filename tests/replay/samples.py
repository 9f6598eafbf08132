"""Small traces."""

import json

from kgen.replay.traces import HASH_TOKENS, Trace, TraceRequest

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:50.0000000,5,1
"""
MOONCAKE = [
    {"timestamp": 500, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 2500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]},
]


def mooncake_text(*records) -> str:
    return "".join(json.dumps(record) + "\n" for record in records or MOONCAKE)


def trace_of(*requests: tuple[float, int, int, tuple[int, ...] | None]) -> Trace:
    """Requests as (arrival, prompt tokens, output tokens, hash ids)."""
    return Trace("sample", "mooncake", tuple(TraceRequest(*request) for request in requests))


def ids_for(tokens: int, first: int) -> tuple[int, ...]:
    """Hash ids first, first + 1, ... that cover so many tokens."""
    return tuple(range(first, first - (-tokens // HASH_TOKENS)))
