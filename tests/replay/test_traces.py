"""Reading traces: both forms, and what is wrong in a line."""

import pytest

from kgen.diagnostics import KgenError
from kgen.replay.traces import read_trace
from tests.replay.samples import AZURE, MOONCAKE, mooncake_text


@pytest.fixture
def read(tmp_path):
    def read(text: str, limit=None):
        path = tmp_path / "trace.txt"
        path.write_text(text)
        return read_trace(path, limit)

    return read


def test_json_lines_name_their_content(read):
    trace = read(mooncake_text() + "\n")
    assert (trace.name, trace.kind, trace.names_content) == ("trace.txt", "mooncake", True)
    first, second = trace.requests
    assert (first.arrival, first.prompt_tokens, first.output_tokens, first.hash_ids) == (0, 700, 5, (0, 1))
    assert second.arrival == 2.0


def test_csv_is_put_in_order_of_arrival_and_names_no_content(read):
    trace = read(AZURE)
    assert (trace.kind, trace.names_content) == ("azure", False)
    assert [request.prompt_tokens for request in trace.requests] == [374, 5, 396]
    assert [round(request.arrival, 6) for request in trace.requests] == [0, 3.31941, 4.314579]


def test_a_limit_reads_the_first_requests_of_the_file(read):
    assert [request.prompt_tokens for request in read(AZURE, 2).requests] == [374, 396]
    broken_later = mooncake_text(MOONCAKE[0]) + "{"
    assert len(read(broken_later, 1).requests) == 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("hello\n", 1, "no trace that can be replayed"),
        ("TIMESTAMP,ContextTokens\n1,2\n", 1, "no trace that can be replayed"),
        (mooncake_text() + "{]\n", 3, "no JSON"),
        (mooncake_text() + "[1]\n", 3, "expected a JSON object"),
        (mooncake_text({**MOONCAKE[0], "input_length": 0}), 1, "input_length is 0, expected"),
        (mooncake_text({**MOONCAKE[0], "output_length": 1.5}), 1, "output_length is 1.5"),
        (mooncake_text({**MOONCAKE[0], "timestamp": True}), 1, "timestamp is True"),
        (mooncake_text({**MOONCAKE[0], "hash_ids": [0]}), 1, "700 tokens have 2 hash_ids, found 1"),
        (mooncake_text({"timestamp": 1, "input_length": 1, "output_length": 1}), 1, "found none"),
        (mooncake_text({**MOONCAKE[0], "hash_ids": [0, 2**22]}), 1, "hash id 4194304 is no integer"),
        (mooncake_text({**MOONCAKE[0], "hash_ids": [-1, 0]}), 1, "hash id -1 is no integer"),
        (AZURE + "2023-11-16,1\n", 5, "expected 3 values, found 2"),
        (AZURE + "yesterday,1,2\n", 5, "'yesterday' is no date and time"),
        (AZURE + "2023-11-16 18:15:51,1,none\n", 5, "GeneratedTokens is 'none'"),
    ],
)
def test_a_fault_is_told_with_its_line(read, text, line, words):
    with pytest.raises(KgenError) as caught:
        read(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "K709" and diagnostic.span.line == line
    assert words in str(diagnostic)


def test_files_that_hold_nothing_are_refused(read, tmp_path):
    for act, words in [
        (lambda: read_trace(tmp_path / "none.csv"), "No such file"),
        (lambda: read_trace(tmp_path), "Is a directory"),
        (lambda: read(AZURE.splitlines()[0]), "has no requests"),
        (lambda: read(""), "no trace that can be replayed"),
    ]:
        with pytest.raises(KgenError, match=words) as caught:
            act()
        assert caught.value.diagnostics[0].code == "K709"


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(KgenError, match="not UTF-8"):
        read_trace(tmp_path / "bytes")
