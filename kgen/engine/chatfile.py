"""Chat files: JSON with a list of sessions, each a list of a user's turns.

[["What is gravity?", "Who found it?"],
 {"system": "You are a poet.", "turns": ["Write about rain."]}]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kgen.diagnostics import Diagnostic, KgenError, Source, Span
from kgen.engine.errors import fault


@dataclass(frozen=True)
class Script:
    """What a user says in a session, and under which system message."""

    turns: tuple[str, ...]
    system: str | None = None


def read_chats(path: Path) -> list[Script]:
    """The sessions of a file. Raises K805 with the place of what is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise fault("K805", f"cannot read {path}: {error}") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        span = Span(Source(str(path), text), error.lineno, error.colno, error.lineno, error.colno + 1)
        raise KgenError(Diagnostic("K805", f"this is no JSON: {error.msg}", span)) from None
    if not isinstance(document, list) or not document:
        raise fault("K805", f"{path} holds no list of sessions", EXAMPLE)
    return [_script(f"{path}: session {place + 1}", entry) for place, entry in enumerate(document)]


EXAMPLE = 'such as [["first turn", "second turn"], {"system": "...", "turns": ["..."]}]'


def _script(where: str, entry: object) -> Script:
    system = None
    if isinstance(entry, dict):
        if odd := set(entry) - {"system", "turns"}:
            raise fault("K805", f"{where} has a field '{min(odd)}'", "fields are turns and system")
        system, entry = entry.get("system"), entry.get("turns")
        if system is not None and not isinstance(system, str):
            raise fault("K805", f"{where}: system is {system!r}, expected text")
    if not isinstance(entry, list) or not entry or not all(isinstance(turn, str) for turn in entry):
        raise fault("K805", f"{where} is no list of turns, each a text", EXAMPLE)
    return Script(tuple(entry), system)
