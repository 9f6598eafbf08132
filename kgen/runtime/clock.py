"""Time, as something handed in: any callable that gives seconds and never goes back."""

from __future__ import annotations

from collections.abc import Callable

from kgen.runtime.errors import fault

Clock = Callable[[], float]


class ManualClock:
    """A clock that moves when told to, for simulations and tests."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`; raises K701 for going back."""
        if not seconds >= 0:
            raise fault("K701", f"a clock cannot advance by {seconds} seconds")
        self._now += seconds
