"""The debug mode: every operation of an object followed by its `check_integrity`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kgen import env


class Checked(Protocol):
    def check_integrity(self) -> None: ...


def check_after(checked: Checked, methods: Iterable[str], wanted: bool | None) -> None:
    """Make these methods of one object check it when they are done, if `wanted` (None: if KGEN_CHECK is
    set). Also when they raise, since what raises must have changed nothing. Costs nothing otherwise."""
    if wanted if wanted is not None else env.check():
        for name in methods:
            setattr(checked, name, _checking(checked, getattr(checked, name)))


def _checking(checked: Checked, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(*args: Any, **more: Any) -> Any:
        try:
            return method(*args, **more)
        finally:
            checked.check_integrity()

    return run
