"""The outcome of rendering one variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kgen.manifest import Launch
from kgen.variants.model import Variant


class LineOrigin(NamedTuple):
    """Rendered line `line` came from `template`:`template_line` (both 1-based)."""

    line: int
    template: str
    template_line: int


@dataclass(frozen=True)
class Rendered:
    """Source text ready for a compiler. `headers` are paths relative to templates/include, in
    the order the compiler will need them, transitively (they enter the cache key)."""

    variant: Variant
    text: str
    suffix: str  # .cpp, .hip or .cu
    headers: tuple[str, ...]
    symbol: str  # the extern "C" entry
    launch: Launch | None
    origins: tuple[LineOrigin, ...]
