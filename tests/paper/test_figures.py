"""`kgen paper`: from a trace to figures, for a program and for a reader."""

import json

import pytest

from kgen.cli import main
from kgen.diagnostics import KgenError
from kgen.paper import figures as module
from kgen.paper.claims import Claim
from kgen.paper.figures import BLOCK_SIZES, Settings, figures

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture
def trace(tmp_path):
    rows = [f"2023-11-16 18:15:{second:02}.0,{50 + 7 * second},{3 + second % 5}" for second in range(40)]
    path = tmp_path / "small.csv"
    path.write_text("\n".join([HEADER, *rows, "2023-11-16 18:16:00.0,5000,9"]))
    return path


SMALL = Settings(max_seq_len=400, budget_gib=0.6, requests=30)


def test_a_trace_gives_a_row_for_each_scheme_and_block_size(trace):
    found = figures([trace], SMALL)
    assert found.hold and found.budget_tokens == 786
    (one,) = found.traces
    assert (one.name, one.requests, one.left_out, one.never_full) == ("small.csv", 30, 1, ())
    schemes = ["longest", "power of two", "oracle", *(f"pages of {size}" for size in BLOCK_SIZES)]
    assert [use.scheme for use in one.uses] == schemes
    assert [row.block_size for row in one.tails] == list(BLOCK_SIZES)
    assert one.tails[1].bytes == one.tails[1].tokens * 819_200
    assert all(a.part < b.part for a, b in zip(one.tails, one.tails[1:], strict=False))


def test_memory_that_never_fills_is_said_to_be(trace):
    (one,) = figures([trace], Settings(max_seq_len=400, budget_gib=100, requests=30)).traces
    assert one.uses == () and len(one.never_full) == 3 + len(BLOCK_SIZES)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (Settings(max_seq_len=20), "K709", "no request of small.csv has at most 20 tokens"),
        (Settings(max_seq_len=1000, budget_gib=0.6), "K701", "too few for a sequence of 1000"),
    ],
)
def test_settings_that_leave_nothing_are_refused(trace, settings, code, words):
    with pytest.raises(KgenError) as caught:
        figures([trace], settings)
    assert caught.value.diagnostics[0].code == code and words in str(caught.value)


def test_waste_above_the_bound_does_not_hold(tmp_path):
    path = tmp_path / "tiny.csv"
    path.write_text(f"{HEADER}\n2023-11-16 18:15:00.0,17,1")
    found = figures([path], SMALL)
    assert found.traces[0].paging_waste == pytest.approx(15 / 32) and not found.hold


def test_the_command_prints_figures_and_fails_when_one_differs(trace, capsys, monkeypatch):
    arguments = ["paper", str(trace), "--max-seq-len", "400", "--budget-gib", "1", "--requests", "30"]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["budget_tokens"] == 1310 and document["traces"][0]["holds"] is True
    assert all(claim["holds"] for claim in document["claims"])
    monkeypatch.setattr(module, "claims", lambda: (Claim("the figure", 45, 32, "tokens"),))
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "the figure" in printed and "differs" in printed and "pages of 16" in printed
    assert main(["paper", "no-such-trace.csv"]) == 1
    assert "no-such-trace.csv" in capsys.readouterr().err
