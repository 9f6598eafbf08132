"""Faults of the runtime, each raised before anything has changed.

K701 an argument, K702 memory, K703 a page, K704 a lock, K705 a sequence, K706 a request, K707 the order of
calls, K708 integrity, K709 a trace.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from kgen.diagnostics import Diagnostic, KgenError


def fault(code: str, message: str, hint: str | None = None, notes: tuple[str, ...] = ()) -> KgenError:
    """One fault of a call into the runtime."""
    return KgenError(Diagnostic(code, message, hint=hint, notes=notes))


def whole(name: str, value: object, minimum: int = 0) -> int:
    """`value` as an integer of at least `minimum`; raises K701."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise fault("K701", f"{name} is {value!r}, expected an integer") from None
    if number < minimum:
        raise fault("K701", f"{name} is {number}, expected at least {minimum}")
    return number


def out_of_pages(wanted: int, free: int, evictable: int) -> KgenError:
    """More pages were asked for than can be free."""
    message = f"{wanted} pages are wanted; {free} are free and {evictable} more could be evicted"
    return fault("K702", message, hint="ask room_for() first, or preempt a sequence")


def broken(findings: Sequence[str]) -> KgenError:
    """What an integrity check found, as one fault with a note for each finding."""
    message = f"the runtime's structures disagree in {len(findings)} places"
    return fault("K708", message, hint="this is a fault of kgen", notes=tuple(findings[:20]))
