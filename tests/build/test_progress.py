"""What a build tells, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from kgen.build import progress
from kgen.build.progress import Bar, Plain, reporter
from kgen.diagnostics import KgenError
from tests.build.build_samples import rendered


def test_lines(sample, capsys):
    sample.build(rendered("a", 1), progress="plain", jobs=1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["kgen: compiling 1 kernel, 1 at once", "kgen: compiling a"]
    assert lines[2].startswith("kgen: [1/1] a built in ")


def test_failures_are_told_as_they_happen(sample, capsys):
    with pytest.raises(KgenError):
        sample.build(rendered("bad", text="#error no\n"), progress="plain")
    assert "kgen: [1/1] bad FAILED" in capsys.readouterr().err


def test_nothing_is_said_when_nothing_is_built(sample, capsys):
    sample.build(rendered("a", 1))
    sample.build(rendered("a", 1), progress="plain")
    assert capsys.readouterr().err == ""


def test_every_start_has_its_end(sample):
    told = []

    class Listener(progress.Silent):
        def started(self, name):
            told.append(("start", name))

        def finished(self, name, seconds, ok):
            told.append(("end", name, ok))

        def end(self):
            told.append("over")

    with pytest.raises(KgenError):
        sample.build(rendered("a", 1), rendered("b", text="#error no\n"), progress=Listener(), jobs=1)
    assert told == [("start", "a"), ("end", "a", True), ("start", "b"), ("end", "b", False), "over"]


def test_the_bar_names_what_compiles():
    stream = io.StringIO()
    bar = Bar(stream)
    bar.begin(3, 2)
    bar.started("first_kernel")
    bar.started("second_kernel")
    assert bar._progress.tasks[0].description == "first_kernel +1"
    bar.finished("first_kernel", 0.5, True)
    bar.finished("second_kernel", 0.5, False)
    bar.started("third_kernel")
    task = bar._progress.tasks[0]
    assert (task.description, task.completed, task.total) == ("[red]1 failed[/red] third_kernel", 2, 3)
    bar.end()
    bar.end()


def test_waiting_is_told_after_a_moment_and_then_now_and_again(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    plain = Plain(stream)
    for step in (0.0, 0.5, 0.6, 1.0, 20.0, 10.0):
        clock[0] += step
        plain.waiting("k", "process 7 on box")
    assert stream.getvalue() == 2 * "kgen: waiting for process 7 on box, which is building k\n"


def test_a_terminal_gets_the_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    assert isinstance(reporter("auto"), Bar)
    assert isinstance(reporter("plain"), Plain)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(reporter("auto"), Plain)
