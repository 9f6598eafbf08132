"""One ninja graph for all that a build call must compile, and the events of running it.

Each edge runs one compiler in its variant's folder, its output in `compile.log`, and notes its
start and end in the file `events`. Ninja goes on after a failure, so every failure is found.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from select import POLLHUP, POLLIN, poll
from typing import IO

from kgen import env
from kgen.build.cache import LOG
from kgen.build.job import Job
from kgen.build.stage import include_name
from kgen.diagnostics import Diagnostic, KgenError

_TICK_MILLISECONDS = 50
_EVENTS = "events"
_RULE = "rule compile\n  command = $run\n  description = $name\n\n"


@dataclass(frozen=True)
class Event:
    """`status` None: the compiler of job `number` started; else it ended with that exit status."""

    number: int
    status: int | None = None
    seconds: float = 0.0


def find_ninja() -> str:
    """The ninja of the Python package, else the one on PATH. Raises KgenError (K402)."""
    try:
        import ninja

        packaged = shutil.which("ninja", path=ninja.BIN_DIR)
    except ImportError:
        packaged = None
    found = packaged or shutil.which("ninja")
    if found is None:
        raise KgenError(Diagnostic("K402", "no ninja found", hint="install it: pip install ninja"))
    return found


def compile_command(job: Job) -> tuple[str, ...]:
    """The compile words as run in the job's staged folder."""
    include = f"../{include_name(job)}"
    return job.toolchain.command(job.source, job.entry.artefact, include, job.more)


def run(stage: Path, jobs: Sequence[Job], parallel: int) -> Iterator[Event]:
    """Compile the staged jobs; yields each start and end as it happens. Raises KgenError (K409)
    when ninja itself fails. Closing the iterator early stops ninja and its compilers."""
    (stage / "build.ninja").write_text(_RULE + "".join(_edge(i, job) for i, job in enumerate(jobs)))
    (stage / _EVENTS).touch()
    argv = [find_ninja(), "-k", "0", "-j", str(parallel)]
    # Its output goes through a pipe, not a file: a ninja whose builder was killed then stops at
    # its next line instead of compiling on for nobody.
    reading, writing = os.pipe()
    try:
        process = _start(argv, stage, writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    ended, running = 0, True
    output = bytearray()
    try:
        with (stage / _EVENTS).open() as events:
            while running:
                running = _drain(reading, output)
                for event in _events(events, stage):
                    ended += event.status is not None
                    yield event
    finally:
        if running:
            process.send_signal(signal.SIGINT)
        os.close(reading)
        process.wait()
    if ended < len(jobs):
        text = output.decode(errors="replace").strip()
        message = f"ninja ended with status {process.returncode} after {ended} of {len(jobs)} compiles"
        raise KgenError(Diagnostic("K409", message, notes=(text,)))


def _edge(number: int, job: Job) -> str:
    launcher = env.compiler_launcher()
    words = shlex.join((*launcher, *compile_command(job)))
    run = (
        f"cd {number} && : > started && printf '%s\\n' '{number}' >> ../{_EVENTS}; "
        f"{words} > {LOG} 2>&1; status=$?; echo $status > status; "
        f"printf '%s\\n' '{number} '$status >> ../{_EVENTS}; exit $status"
    )
    escaped = run.replace("$", "$$")
    return f"build {number}/{job.entry.artefact}: compile\n  run = {escaped}\n  name = {job.entry.name}\n\n"


def _start(argv: list[str], stage: Path, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=stage,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C", "NINJA_STATUS": "[%f/%t] "},
    )


def _drain(pipe: int, output: bytearray) -> bool:
    """Read what ninja says, for at most a tick. False once it has said all."""
    waiter = poll()  # select() cannot watch descriptors above 1023
    waiter.register(pipe, POLLIN | POLLHUP)
    if not waiter.poll(_TICK_MILLISECONDS):
        return True
    chunk = os.read(pipe, 65536)
    output += chunk
    return bool(chunk)


def _events(events: IO[str], stage: Path) -> Iterator[Event]:
    while True:
        place = events.tell()
        line = events.readline()
        if not line.endswith("\n"):
            events.seek(place)
            return
        number, _, status = line.strip().partition(" ")
        if not status:
            yield Event(int(number))
            continue
        folder = stage / number
        seconds = (folder / "status").stat().st_mtime - (folder / "started").stat().st_mtime
        yield Event(int(number), int(status), max(0.0, seconds))
