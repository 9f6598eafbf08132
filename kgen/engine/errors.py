"""Faults of the engine, each raised before anything has changed.

K801 a sampling parameter, K802 a request, K803 a setting or a model, K804 a step that cannot be run,
K805 a chat file. (K806: what the command line asks for.)
"""

from __future__ import annotations

from kgen.diagnostics import Diagnostic, KgenError


def fault(code: str, message: str, hint: str | None = None) -> KgenError:
    """One fault of a call into the engine."""
    return KgenError(Diagnostic(code, message, hint=hint))
