"""`kgen replay` from the command line."""

import json

from kgen.cli import main
from tests.replay.samples import AZURE, mooncake_text


def test_it_prints_tables_or_one_document(tmp_path, capsys):
    path = tmp_path / "trace.jsonl"
    path.write_text(mooncake_text())
    assert main(["replay", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "512 (29.7%)" in out and "first token" in out and "2 of 2 requests" in err
    assert main(["replay", str(path), "--json", "--page-size", "64", "--order", "fcfs"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hit_tokens"] == 512 and document["totals"]["new_tokens"] == 12


def test_it_says_that_a_trace_names_no_content(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(AZURE)
    assert main(["replay", str(path), "--requests", "2", "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert "says nothing of content" in out and "2 requests" in out and "evicted" not in out


def test_faults_are_told(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(AZURE + "x\n")
    assert main(["replay", str(path)]) == 1
    assert f"{path}:5:1: error[K709]" in capsys.readouterr().err
    path.write_text(AZURE)
    assert main(["replay", str(path), "--order", "longest"]) == 1
    assert "did you mean" in capsys.readouterr().err
