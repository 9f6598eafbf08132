"""Where kgen's own data and the user's cache are. Looks, never creates.

In a wheel the data stand in `kgen/_data`; in a checkout at its root.
"""

from __future__ import annotations

from pathlib import Path

from kgen import env
from kgen.diagnostics import Diagnostic, KgenError

_PACKAGE = Path(__file__).resolve().parent


def specs_dir() -> Path:
    """The shipped specs: targets/, ops/, builds/ and layouts.yaml."""
    return _data("specs")


def templates_dir() -> Path:
    """The shipped templates: cpu/, gpu/ and include/."""
    return _data("templates")


def include_dir() -> Path:
    """The headers that rendered sources include."""
    return templates_dir() / "include"


def cache_dir() -> Path:
    """KGEN_CACHE_DIR, else `kgen` in XDG_CACHE_HOME, else `~/.cache/kgen`. May not exist yet.

    Raises KgenError (K603) where there is no home folder to put it in.
    """
    chosen = env.cache_directory()
    if chosen is not None:
        return chosen
    base = env.xdg_cache_home()
    if base is not None:
        return base / "kgen"
    try:
        return Path.home() / ".cache" / "kgen"
    except RuntimeError:
        hint = "set KGEN_CACHE_DIR to a folder that can be written"
        raise KgenError(Diagnostic("K603", "no home folder for the kernel cache", hint=hint)) from None


def tune_dir() -> Path:
    """KGEN_TUNE_DIR, else `tuned` in the cache: where tuning tables are. May not exist."""
    return env.tune_directory() or cache_dir() / "tuned"


def shown(path: Path) -> Path:
    """The path as messages name it: from the working folder on where it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _data(name: str) -> Path:
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
