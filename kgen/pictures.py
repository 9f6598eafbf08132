"""Pictures, by matplotlib where it is installed. Nothing else of kgen needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError


def pyplot() -> Any:
    """matplotlib's pyplot, drawing into files only. Raises KgenError (K605) where it is not installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as found
    except ImportError as error:
        hint = "pip install matplotlib, or leave --plot out"
        raise KgenError(
            Diagnostic("K605", "--plot needs matplotlib, which is not installed", hint=hint)
        ) from error
    return found


def nothing_to_draw(file: Path) -> KgenError:
    """The fault of a picture that would be empty."""
    return KgenError(Diagnostic("K606", f"there is nothing to draw in {file}: no cell was measured"))


def save(figure: Any, file: Path) -> None:
    """Write a figure, as PNG or what the file's suffix says, and forget it. Raises KgenError (K606) where it
    cannot be written."""
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise KgenError(Diagnostic("K606", f"cannot draw {file}: {error}")) from None
    finally:
        pyplot().close(figure)
