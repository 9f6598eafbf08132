"""Every malformed sample yields exactly the diagnostics beside it, all of them in one run.

After a deliberate change of a message, refresh the files with

    UPDATE_EXPECTED=1 pytest tests/spec/test_malformed.py

and read the difference.
"""

import os
from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from tests.spec.spec_samples import MALFORMED, catalog, load_sample

SAMPLES = sorted(MALFORMED.glob("*.yaml"))


def diagnose(path: Path, monkeypatch: pytest.MonkeyPatch) -> KgenError:
    catalog()
    monkeypatch.chdir(MALFORMED)
    with pytest.raises(KgenError) as caught:
        load_sample(Path(path.name))
    return caught.value


def test_there_are_enough_samples():
    assert len(SAMPLES) >= 24


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_diagnostics(path: Path, monkeypatch: pytest.MonkeyPatch):
    text = f"{diagnose(path, monkeypatch)}\n"
    expected = path.with_suffix(".expected")
    if os.environ.get("UPDATE_EXPECTED") == "1":
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_diagnostic_has_a_code_a_place_and_no_python(path: Path, monkeypatch: pytest.MonkeyPatch):
    for diagnostic in diagnose(path, monkeypatch).diagnostics:
        assert diagnostic.code.startswith(("K1", "K2"))
        assert diagnostic.span is not None
        assert diagnostic.span.source.name == path.name
        for word in ("Traceback", "None", "<class", "__ANON", "Token(", "yaml.parser"):
            assert word not in str(diagnostic)


def test_nothing_is_told_twice(monkeypatch: pytest.MonkeyPatch):
    for path in SAMPLES:
        places = [(d.code, str(d.span), d.message) for d in diagnose(path, monkeypatch).diagnostics]
        assert len(places) == len(set(places)), path.name
