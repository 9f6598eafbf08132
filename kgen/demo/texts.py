"""What the demo shows of a run: texts as they grow, and documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

if TYPE_CHECKING:
    from kgen.demo.job import EngineRun
    from kgen.demo.stock import Answers, Name

SHOWN_CHARACTERS = 300


class Texts:
    """The latest text of each session as it grows; token ids where there is no tokenizer."""

    def __init__(self, tokenizer: Any | None) -> None:
        self._tokenizer = tokenizer
        self._latest: dict[int, tuple[int, list[int]]] = {}

    def add(self, name: Name, token: int) -> None:
        """One more token; a new turn begins a new text."""
        session, turn = name
        if self._latest.get(session, (-1, []))[0] != turn:
            self._latest[session] = (turn, [])
        self._latest[session][1].append(token)

    def text(self, tokens: Sequence[int]) -> str:
        """An answer without its end mark."""
        if self._tokenizer is None:
            return " ".join(map(str, tokens))
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def panel(self, title: str) -> RenderableType:
        """What a terminal shows meanwhile."""
        lines = [
            Text.assemble((f"{session + 1}.{turn + 1}  ", "cyan"), self.text(tokens)[-SHOWN_CHARACTERS:])
            for session, (turn, tokens) in sorted(self._latest.items())
        ]
        return Panel(Group(*lines), title=title, title_align="left")


def answers_json(answers: Answers) -> dict[str, list[int]]:
    """Answers by session and turn, from 1."""
    return {f"{session + 1}.{turn + 1}": list(row) for (session, turn), row in sorted(answers.items())}


def run_json(run: EngineRun) -> dict[str, Any]:
    """All of a run."""
    return {
        "setting": dataclasses.asdict(run.setting),
        "prefix_cache": run.cached,
        "answers": answers_json(run.answers),
        "seconds": run.seconds,
        "stats": dataclasses.asdict(run.stats),
        "identical": run.comparison.identical,
        "comparison": dataclasses.asdict(run.comparison),
        "kernels": dict(run.kernels),
        "peak_bytes": run.peak_bytes,
    }
