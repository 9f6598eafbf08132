"""Tensors as shapes, strides and types alone: what of them shares memory, and other ways to see them."""

from __future__ import annotations

from dataclasses import replace

from kgen.diagnostics import KgenError
from kgen.dispatch.errors import fault
from kgen.dispatch.model import View


def spread(view: View, rank: int) -> View:
    """A tensor in which one element stands for all along an axis: there its stride is 0. A tensor without
    axes has one element along each."""
    shape = view.shape or (1,) * rank
    strides = tuple(0 if n == 1 else s for n, s in zip(shape, view.strides or shape, strict=True))
    return replace(view, shape=shape, strides=strides)


def overlaps(view: View) -> bool:
    """Whether two elements of a tensor may share memory (exact for all layouts torch hands out)."""
    extents = sorted((s, n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1)
    if 0 in view.shape:
        return False
    reach = 0
    for stride, extent in extents:
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def byte_view(name: str, view: View, itemsize: int) -> View:
    """A tensor of pages, axis 0 counting them, seen as bytes [block, page_bytes].

    Raises KgenError (K513) where a page is not contiguous.
    """
    if not view.shape:
        raise _bytes_fault(name, "it has no axis of pages")
    step = 1
    for extent, stride in zip(reversed(view.shape[1:]), reversed(view.strides[1:]), strict=True):
        if extent > 1 and stride != step:
            raise _bytes_fault(name, f"its strides are {list(view.strides)}")
        step *= extent
    return View((view.shape[0], step * itemsize), (view.strides[0] * itemsize, 1), "u8", view.device)


def _bytes_fault(name: str, why: str) -> KgenError:
    return fault("K513", f"{name}: every page must be contiguous, but {why}")
