"""Rows of `tests` are held against what the harness reads, before a case of them runs."""

import pytest

from kgen import api, cli, paths
from kgen.diagnostics import KgenError
from kgen.spec.load import load_op
from kgen.testing.rows import KEYS, check_rows
from kgen.testing.runner import ADAPTERS, cases

SHIPPED = paths.specs_dir() / "ops" / "merge_states.yaml"
TWO = "{name: two, rows: 5, heads: 3, states: 2}"


def spoilt(tmp_path, row):
    """The operator with another row in place of `two`."""
    text = SHIPPED.read_text()
    assert TWO in text
    path = tmp_path / "merge_states.yaml"
    path.write_text(text.replace(TWO, row))
    catalog = api.check()
    return path, load_op(path, catalog.layouts, list(catalog.targets))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{name: two, rows: 5, heads: 3, state: 2}", ["K201", "K202"]),
        ("{name: two, rows: 5, heads: [3], states: 2}", ["K203"]),
        ("{name: two, rows: 5, heads: 3, states: 2, when: head_dim > 8}", []),
    ],
)
def test_faults_of_a_row(tmp_path, row, said):
    _, op = spoilt(tmp_path, row)
    if not said:
        check_rows(op)
        return
    with pytest.raises(KgenError) as raised:
        check_rows(op)
    assert [fault.code for fault in raised.value.diagnostics] == said


def test_check_tells_the_place_and_the_nearest_key(tmp_path, capsys):
    path, _ = spoilt(tmp_path, "{name: two, rows: 5, heads: 3, state: 2}")
    assert cli.main(["check", str(path)]) == 1
    told = capsys.readouterr()
    text = told.out + told.err
    line = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if "state: 2" in line)
    assert f"merge_states.yaml:{line}:" in text and "did you mean 'states'?" in text
    assert "needs the key 'states'" in text


def test_every_adapter_says_what_it_reads():
    assert set(ADAPTERS) <= set(KEYS)
    for op in api.check().ops.values():
        check_rows(op)


def test_an_operator_without_an_adapter_has_no_cases(monkeypatch):
    variant = next(v for v in api.expand("golden").accepted if v.op.name == "merge_states")
    assert cases(variant)
    monkeypatch.delitem(ADAPTERS, "merge_states")
    with pytest.raises(KgenError, match="no test harness knows merge_states"):
        cases(variant)
