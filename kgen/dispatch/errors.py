"""Faults of a call, in the words of the spec.

K51x arguments, K52x selection and loading, K519 and K53x what a kernel reported.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kgen.diagnostics import Diagnostic, KgenError
from kgen.manifest import ERRORS, Policy, Scalar

CODES: Mapping[int, str] = {code: name for name, code in ERRORS.items()}
PADDING = -1
STOPPED = "K536"
"""The simulator stopped a kernel for what a chip would not survive."""
UNWRITTEN = "nothing was written"
ON_GPU = "rows that could not be computed are NaN or unwritten"
LATE = f"a call since the last check; its {ON_GPU}"


def fault(code: str, message: str, hint: str | None = None, notes: tuple[str, ...] = ()) -> KgenError:
    """One fault of a call."""
    return KgenError(Diagnostic(code, message, hint=hint, notes=notes))


def kernel_fault(
    policy: Policy, facts: Mapping[str, Scalar], words: tuple[int, int, int, int], note: str = UNWRITTEN
) -> KgenError:
    """The error a kernel reported. `words` are code, row, index and value as it wrote them; `note` says
    what became of the outputs."""
    code, row, index, value = words
    name = CODES.get(code, "")
    describe = _KERNEL_FAULTS.get(name)
    if describe is None:
        return fault("K539", f"{policy.op}: the kernel reported error {code} ({row}, {index}, {value})")
    number, message, hint = describe(facts, row, index, value)
    return fault(number, f"{policy.op}: {message}", hint, (note,))


_Described = tuple[str, str, str | None]
_Describe = Callable[[Mapping[str, Scalar], int, int, int], _Described]


def _abi(_facts: Mapping[str, Scalar], row: int, _index: int, _value: int) -> _Described:
    return "K530", f"the library was built for argument block version {row}", "build the library again"


def _block_id(facts: Mapping[str, Scalar], row: int, index: int, value: int) -> _Described:
    if "num_blocks" not in facts:  # found later, when the call's sizes are not known any more
        return "K531", f"row {row}, page or side {index}: block id {value} is outside the pool", None
    blocks = facts["num_blocks"]
    if "num_pairs" in facts:
        side = "destination" if index else "source"
        pool = facts.get("num_source_blocks", blocks) if not index else blocks
        message = f"block_mapping row {row}: {side} block {value} is outside the pool of {pool} blocks"
        return "K531", message, _range(pool)
    message = f"row {row}, page {index}: block id {value} is outside the pool of {blocks} blocks"
    return "K531", message, _range(blocks)


def _range(count: Scalar) -> str:
    return f"valid block ids are 0 to {int(count) - 1}" if int(count) > 0 else "the pool has no blocks"


def _seq_len(_facts: Mapping[str, Scalar], row: int, limit: int, value: int) -> _Described:
    message = f"row {row}: sequence length {value} is outside 0 to {limit}"
    return "K532", message, "a length is at most max_seq_len and at most max_pages * block_size"


def _slot(_facts: Mapping[str, Scalar], row: int, limit: int, value: int) -> _Described:
    message = f"token {row}: slot {value} is outside the pool of {limit} slots"
    valid = f"valid slots are 0 to {limit - 1}, and {PADDING} for a padding token" if limit > 0 else None
    return "K533", message, valid


def _overlap(_facts: Mapping[str, Scalar], row: int, other: int, value: int) -> _Described:
    first, second = sorted((row, other))
    message = f"block_mapping rows {first} and {second} both touch block {value}, which one of them writes"
    return "K534", message, "a destination may be named once, and must not also be a source"


def _alignment(_facts: Mapping[str, Scalar], row: int, index: int, value: int) -> _Described:
    return "K535", f"argument word {row} is {value:#x}, not aligned to {index} bytes", None


def _simulated(_facts: Mapping[str, Scalar], row: int, index: int, value: int) -> _Described:
    return STOPPED, f"the simulator stopped at source line {value} (block {row}, thread {index})", None


def _indptr(facts: Mapping[str, Scalar], row: int, index: int, value: int) -> _Described:
    name, limit = ("kv_indptr", "num_indices") if index else ("qo_indptr", "total_q")
    most = f", at most {facts[limit]}" if limit in facts else ""
    return "K537", f"{name}[{row}] is {value}", f"its entries rise from 0 or more{most}"


def _extend_len(_facts: Mapping[str, Scalar], row: int, limit: int, value: int) -> _Described:
    message = f"sequence {row} has {value} new tokens, more than max_extend_len {limit}"
    return "K538", message, "max_extend_len is an upper bound of the new tokens of every sequence"


def _scale(_facts: Mapping[str, Scalar], row: int, index: int, value: int) -> _Described:
    name = "v_scale" if index else "k_scale"
    (number,) = struct.unpack("<f", struct.pack("<I", value & 0xFFFFFFFF))
    return "K519", f"{name} of KV head {row} is {number}", "a scale is a finite number above 0"


_KERNEL_FAULTS: Mapping[str, _Describe] = {
    "abi": _abi,
    "block_id": _block_id,
    "seq_len": _seq_len,
    "slot": _slot,
    "overlap": _overlap,
    "alignment": _alignment,
    "fault": _simulated,
    "indptr": _indptr,
    "extend_len": _extend_len,
    "scale": _scale,
}
