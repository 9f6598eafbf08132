"""Masks and scores as other interfaces ask for them, by switches, in terms of the shipped variants."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kgen.diagnostics import Diagnostic, KgenError

FAR = 2**31 - 1
"""A window's side that hides nothing."""


def variant_for(
    op: str,
    *,
    causal: bool,
    left: int = -1,
    right: int = -1,
    softcap: float = 0.0,
    slopes: Tensor | None = None,
) -> tuple[str, dict[str, Any]]:
    """The shipped variant that does what the switches say, and its arguments.

    left, right: keys before and after its own position that a query sees; all where negative. softcap: of
    scores; none where 0. slopes: of ALiBi, [num_heads] f32. Raises KgenError (K516) for a combination that no
    shipped variant has.
    """
    right = 0 if causal else right
    behind = right == 0  # nothing after its own position
    match behind, left >= 0, softcap > 0, slopes is not None:
        case True, False, False, False:
            return "causal", {}
        case True, False, True, False:
            return "softcap", {"cap": softcap}
        case True, False, False, True:
            return "alibi", {"slope": slopes}
        case True, True, False, False:
            return "sliding", {"window": left + 1}
        case True, True, True, False:
            return "sliding_softcap", {"window": left + 1, "cap": softcap}
        case False, near, False, False:
            if not near and right < 0:
                return "none", {}
            return "window", {"left": left if near else FAR, "right": right if right >= 0 else FAR}
    asked = {
        "causal": behind,
        "a window": left >= 0 or right > 0,
        "a soft cap": softcap > 0,
        "ALiBi": slopes is not None,
    }
    named = ", ".join(name for name, on in asked.items() if on)
    message = f"{op}: no shipped variant is {named} together"
    raise KgenError(Diagnostic("K516", message, hint="write it under `masks:` of a build, and pass its name"))


def refuse(op: str, wanted: dict[str, bool], why: str) -> None:
    """Raise KgenError (K516) where one of the named arguments is given."""
    given = [name for name, on in wanted.items() if on]
    if given:
        raise KgenError(Diagnostic("K516", f"{op}: {', '.join(given)} is not served", hint=why))
