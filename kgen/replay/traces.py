"""Reading request traces.

Mooncake   JSON lines: timestamp (ms), input_length, output_length, hash_ids (one id per 512 tokens; equal
           ids are equal content)
Azure      CSV: TIMESTAMP, ContextTokens, GeneratedTokens; says nothing of content
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError, Source, Span

HASH_TOKENS = 512
"""Tokens that one hash id of a Mooncake trace stands for."""
AZURE_HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MAX_HASH_ID = (2**31 - 1) // HASH_TOKENS - 1


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """`arrival`: seconds since the first request. `hash_ids`: what the prompt is made of, in pieces of
    HASH_TOKENS; None where the trace does not say."""

    arrival: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Trace:
    """The requests of a file by arrival."""

    name: str
    kind: str
    requests: tuple[TraceRequest, ...]

    @property
    def names_content(self) -> bool:
        """Whether any prefix can be known to be shared."""
        return any(request.hash_ids is not None for request in self.requests)


def read_trace(path: Path, limit: int | None = None) -> Trace:
    """The first `limit` requests of a file, or all. Raises KgenError (K709) for a file that cannot be read,
    that is no such trace, or a line that is not as the others."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise KgenError(Diagnostic("K709", f"cannot read trace {path}: {reason}")) from None
    source = Source(str(path), text)
    kind, parse = _parser(source)
    requests = sorted(islice(parse(source), limit), key=lambda request: request.arrival)
    if not requests:
        raise KgenError(Diagnostic("K709", f"trace {path} has no requests"))
    return Trace(path.name, kind, tuple(_from_zero(requests)))


def _parser(source: Source) -> tuple[str, Callable[[Source], Iterator[TraceRequest]]]:
    first = source.line(1)
    if first.lstrip().startswith("{"):
        return "mooncake", _mooncake
    if tuple(word.strip() for word in first.split(",")) == AZURE_HEADER:
        return "azure", _azure
    hint = f"expected JSON lines as Mooncake has them, or CSV that begins with {','.join(AZURE_HEADER)}"
    raise _at(source, 1, "this is no trace that can be replayed", hint)


def _from_zero(requests: list[TraceRequest]) -> Iterator[TraceRequest]:
    start = requests[0].arrival
    for each in requests:
        yield TraceRequest(each.arrival - start, each.prompt_tokens, each.output_tokens, each.hash_ids)


def _mooncake(source: Source) -> Iterator[TraceRequest]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise _at(source, number, f"this is no JSON ({error.msg})") from None
        if not isinstance(record, Mapping):
            raise _at(source, number, "expected a JSON object")
        arrival = _count(source, number, record, "timestamp", 0)
        prompt, output = (_count(source, number, record, f"{what}_length", 1) for what in ("input", "output"))
        yield TraceRequest(arrival / 1000, prompt, output, _hash_ids(source, number, record, prompt))


def _hash_ids(source: Source, number: int, record: Mapping[str, Any], prompt: int) -> tuple[int, ...]:
    ids = record.get("hash_ids")
    wanted = -(-prompt // HASH_TOKENS)
    if not isinstance(ids, list) or len(ids) != wanted:
        found = f"{len(ids)}" if isinstance(ids, list) else "none"
        raise _at(source, number, f"{prompt} tokens have {wanted} hash_ids, found {found}")
    for each in ids:
        if type(each) is not int or not 0 <= each <= MAX_HASH_ID:
            raise _at(source, number, f"hash id {each!r} is no integer from 0 to {MAX_HASH_ID}")
    return tuple(ids)


def _azure(source: Source) -> Iterator[TraceRequest]:
    rows = csv.reader(source.text.splitlines())
    next(rows)
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(AZURE_HEADER):
            raise _at(source, number, f"expected {len(AZURE_HEADER)} values, found {len(row)}")
        record = dict(zip(AZURE_HEADER, row, strict=True))
        try:
            arrival = datetime.fromisoformat(record["TIMESTAMP"].strip()).timestamp()
        except ValueError:
            raise _at(source, number, f"'{record['TIMESTAMP']}' is no date and time") from None
        prompt, output = (_count(source, number, record, name, 1) for name in AZURE_HEADER[1:])
        yield TraceRequest(arrival, prompt, output)


def _count(source: Source, number: int, record: Mapping[str, Any], name: str, least: int) -> int:
    value = record.get(name)
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if type(value) is not int or value < least:
        raise _at(source, number, f"{name} is {value!r}, expected an integer of at least {least}")
    return value


def _at(source: Source, number: int, message: str, hint: str | None = None) -> KgenError:
    end = max(2, len(source.line(number)) + 1)
    return KgenError(Diagnostic("K709", message, Span(source, number, 1, number, end), hint))
