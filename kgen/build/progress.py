"""Telling what compiles: a bar on a terminal, lines elsewhere, on standard error.

The first word comes before the first compiler ends, so that a long build never looks like a hang.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Mode = Literal["auto", "plain", "none"]
_REMIND_SECONDS = 30.0
_FIRST_WORD_SECONDS = 1.0


class Reporter(Protocol):
    """What a build tells while it runs. Names are variants'."""

    def begin(self, total: int, jobs: int) -> None:
        """`total` artefacts will be compiled, `jobs` at once."""

    def started(self, name: str) -> None:
        """A compiler runs for this one now."""

    def finished(self, name: str, seconds: float, ok: bool) -> None:
        """That compiler has ended."""

    def waiting(self, name: str, holder: str) -> None:
        """Another process builds this one; told again and again while it does."""

    def end(self) -> None:
        """Nothing more will be told."""


class Silent:
    """Tells nothing."""

    def begin(self, total: int, jobs: int) -> None: ...
    def started(self, name: str) -> None: ...
    def finished(self, name: str, seconds: float, ok: bool) -> None: ...
    def waiting(self, name: str, holder: str) -> None: ...
    def end(self) -> None: ...


class Reminder:
    """Lets a repeated message through after a second, and then every half minute."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def due(self, message: str) -> bool:
        now = time.monotonic()
        if now < self._due.setdefault(message, now + _FIRST_WORD_SECONDS):
            return False
        self._due[message] = now + _REMIND_SECONDS
        return True


class Plain:
    """A line when a compiler starts and when one ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0
        self._done = 0
        self._reminder = Reminder()

    def begin(self, total: int, jobs: int) -> None:
        self._total, self._done = total, 0
        self._say(f"kgen: compiling {_count(total)}, {jobs} at once")

    def started(self, name: str) -> None:
        self._say(f"kgen: compiling {name}")

    def finished(self, name: str, seconds: float, ok: bool) -> None:
        self._done += 1
        outcome = f"built in {seconds:.1f} s" if ok else "FAILED"
        self._say(f"kgen: [{self._done}/{self._total}] {name} {outcome}")

    def waiting(self, name: str, holder: str) -> None:
        if self._reminder.due(name):
            self._say(f"kgen: waiting for {holder}, which is building {name}")

    def end(self) -> None: ...

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class Bar:
    """A progress bar that names what compiles now."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._running: dict[str, None] = {}
        self._failed = 0
        self._reminder = Reminder()

    def begin(self, total: int, jobs: int) -> None:
        self.end()
        self._progress = _bar(self._stream)
        self._task = self._progress.add_task(f"{jobs} at once", total=total)
        self._progress.start()

    def started(self, name: str) -> None:
        self._running[name] = None
        self._update(0)

    def finished(self, name: str, seconds: float, ok: bool) -> None:
        self._running.pop(name, None)
        self._failed += not ok
        self._update(1)

    def waiting(self, name: str, holder: str) -> None:
        if self._reminder.due(name):
            print(f"kgen: waiting for {holder}, which is building {name}", file=self._stream, flush=True)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _update(self, advance: int) -> None:
        if self._progress is None or self._task is None:
            return
        failed = f"[red]{self._failed} failed[/red] " if self._failed else ""
        names = next(iter(self._running), "")
        more = f" +{len(self._running) - 1}" if len(self._running) > 1 else ""
        self._progress.update(self._task, advance=advance, description=f"{failed}{names}{more}", refresh=True)


def reporter(mode: Mode | Reporter) -> Reporter:
    """The reporter a mode stands for; `auto` is a bar on a terminal and lines elsewhere."""
    if not isinstance(mode, str):
        return mode
    if mode == "none":
        return Silent()
    if mode == "auto" and sys.stderr.isatty():
        return Bar(sys.stderr)
    return Plain(sys.stderr)


def _bar(stream: TextIO) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(file=stream),
        transient=True,
    )


def _count(total: int) -> str:
    return "1 kernel" if total == 1 else f"{total} kernels"


class Counting:
    """Passes everything on to another reporter and counts what was compiled."""

    def __init__(self, inner: Reporter) -> None:
        self.inner = inner
        self.compiled = 0

    def begin(self, total: int, jobs: int) -> None:
        self.inner.begin(total, jobs)

    def started(self, name: str) -> None:
        self.inner.started(name)

    def finished(self, name: str, seconds: float, ok: bool) -> None:
        self.compiled += ok
        self.inner.finished(name, seconds, ok)

    def waiting(self, name: str, holder: str) -> None:
        self.inner.waiting(name, holder)

    def end(self) -> None:
        self.inner.end()
