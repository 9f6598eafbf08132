"""Which keys the rows of an operator's `tests` have, by what its adapter reads. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.spec.model import OpSpec, TestSpec

LIST, ONE = "a list", "one value"

_PAIRS = {"blocks": ONE, "page_bytes": ONE, "pairs": ONE}
KEYS: Mapping[str, Mapping[str, str]] = {
    "paged_attention": {"seq_lens": LIST, "groups": LIST, "num_kv_heads": ONE, "softmax_scale": ONE},
    "extend_attention": {
        "prefixes": LIST,
        "new": LIST,
        "groups": LIST,
        "num_kv_heads": ONE,
        "softmax_scale": ONE,
    },
    "merge_states": {"rows": ONE, "heads": ONE, "states": ONE},
    "reshape_and_cache": {"tokens": ONE, "num_kv_heads": ONE, "padding": ONE},
    "copy_blocks": _PAIRS,
    "swap_blocks": _PAIRS,
}
"""What a row needs beside `name` and `when`, and no more, by operator."""


def check_rows(op: OpSpec) -> None:
    """Raise KgenError with every row that the harness would not understand (K201, K202, K203). Rows of an
    operator that it does not know are left alone."""
    faults = [fault for test in op.tests for fault in _faults(test, KEYS.get(op.name))]
    if faults:
        raise KgenError(faults)


def _faults(test: TestSpec, known: Mapping[str, str] | None) -> Iterator[Diagnostic]:
    if known is None:
        return
    for key, value in test.values.items():
        kind = LIST if isinstance(value, tuple) else ONE
        if key not in known:
            hint = choice_hint(key, [*known, "name", "when"])
            message = f"a test of this operator has no key '{key[:40]}'"
            yield Diagnostic("K201", message, test.places[key], hint)
        elif kind != known[key]:
            yield Diagnostic("K203", f"'{key}' is {known[key]}; found {kind}", test.places[key])
    for key in known:
        if key not in test.values:
            yield Diagnostic("K202", f"the test {test.name} needs the key '{key}'", test.span)
