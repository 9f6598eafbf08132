"""Whether there is room for something."""

from __future__ import annotations

import enum


class Room(enum.Enum):
    """Whether there is room now: yes; later, when others have finished; never, however long one waits."""

    OK = "ok"
    LATER = "later"
    NEVER = "never"
