"""Checks of index arrays on the host, and the small arithmetic of ragged rows.

K540 a pointer array that is none, K541 lengths that disagree, K542 a dtype or convention that is none,
K543 an index outside the pool, K544 a bound that is missing or too low, K545 slots that are no pages.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from kgen.diagnostics import Diagnostic, KgenError, choice_hint

POOL, SEPARATE = "pool", "separate"
CONVENTIONS = (POOL, SEPARATE)
DTYPES = (torch.int32, torch.int64)
INT32_MAX = 2**31 - 1


def rows_and_places(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Of each entry of rows that lie behind each other: its row, and its place in the row."""
    row = torch.arange(counts.shape[0]).repeat_interleave(counts)
    starts = counts.cumsum(0) - counts
    return row, torch.arange(row.shape[0]) - starts[row]


def running(counts: Tensor) -> Tensor:
    """0 and the running sums, in the dtype of the counts."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(counts.dtype)


def pages(tokens: int, block_size: int) -> int:
    """Pages that hold so many tokens."""
    return -(-tokens // block_size)


def most(values: Tensor) -> int:
    """The largest value; 0 of none."""
    return int(values.max()) if values.numel() else 0


def check_kinds(convention: str, *arrays: Tensor | None) -> None:
    """That index arrays have one axis, a dtype of indices, and one device."""
    if convention not in CONVENTIONS:
        raise fault("K542", f"'{convention}' is no convention", choice_hint(convention, CONVENTIONS))
    given = [array for array in arrays if array is not None]
    for array in given:
        check_dtype(array.dtype)
        if array.dim() != 1:
            raise fault("K541", f"an index array has shape {list(array.shape)}; it has one axis")
    if len({array.device for array in given}) > 1:
        where = ", ".join(str(array.device) for array in given)
        raise fault("K542", f"the index arrays are on different devices: {where}")


def check_dtype(dtype: torch.dtype) -> None:
    """That indices may have this dtype."""
    if dtype not in DTYPES:
        raise fault("K542", f"index arrays are int32 or int64, not {str(dtype).removeprefix('torch.')}")


def check_pointer(name: str, pointers: Tensor, entries: int | None) -> None:
    """A pointer array begins with 0, never falls, and ends with the number of entries."""
    values = pointers.tolist()
    if not values or values[0] != 0:
        raise fault("K540", f"{name} begins with {values[0] if values else 'nothing'}; it begins with 0")
    for row, (before, after) in enumerate(pairwise(values)):
        if after < before:
            raise fault("K540", f"{name} falls from {before} to {after} behind sequence {row}")
    if entries is not None and values[-1] > entries:
        raise fault("K540", f"{name} ends at {values[-1]}, but there are {entries} entries")


def check_range(indices: Tensor, count: int | None, name: Callable[[int], str]) -> None:
    """That every index lies in a pool of `count`; `name` says what the index at a place is."""
    limit = count if count is not None else INT32_MAX + 1
    wrong = (indices < 0) | (indices >= limit)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        pool = f"the pool of {count}" if count is not None else "what 32 bits can count"
        raise fault("K543", f"{name(at)} {int(indices[at])} is outside {pool}")


def bound(name: str, given: int | None, values: Tensor, exact: bool = False) -> int:
    """A host bound of what an array holds: as given, held against the array where that is on the host."""
    if values.device.type != "cpu":
        if given is None:
            raise fault("K544", f"{name} must be given: the arrays are on {values.device}, which is not read")
        return given
    reached = most(values)
    if given is not None and (given < reached or (exact and given != reached)):
        raise fault("K544", f"{name} is {given}, but the arrays reach {reached}")
    return reached if given is None else given


def fault(code: str, message: str, hint: str | None = None) -> KgenError:
    """One fault of a batch."""
    return KgenError(Diagnostic(code, message, hint=hint))
