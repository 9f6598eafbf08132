"""Tuning tables as text: what is written is read again, the same for the same table, a class on its lines."""

import difflib
from dataclasses import replace

from kgen.spec.load import load_tuning
from kgen.spec.tuning import tuning_text
from kgen.tuning import TunedClass, TuningTable
from tests.spec.spec_samples import catalog


def tuned(low, high, use, **exact):
    exact = {"dtype": "bf16", "head_dim": 64, **exact}
    return TunedClass(exact, {"max_len": (low, high)}, use, {"b16_o1": "2.0 us (1.9 to 2.2)"})


TABLE = TuningTable(
    op="decode",
    target="cpu_avx2",
    compiler="cxx: (it's 12.2) 12",
    machine="A: chip, 2 threads",
    classes=(
        tuned(100, 200, {"ordered": True, "block_size": 16}),
        tuned(8, 99, {}),
        tuned(8, 99, {"ordered": False}, scale=0.5),
        tuned(1000, 2000, {"block_size": 32}, mode="fast"),
    ),
)


def read(tmp_path, text):
    (tmp_path / "decode.yaml").write_text(text)
    return load_tuning(tmp_path / "decode.yaml", catalog().ops)


def test_what_is_written_is_read_again(tmp_path):
    text = tuning_text(TABLE)
    found = read(tmp_path, text)
    plain = {one.key: replace(one, where="") for one in found.classes}
    assert plain == {one.key: one for one in TABLE.classes}
    assert (found.op, found.target, found.compiler, found.machine) == (
        TABLE.op,
        TABLE.target,
        TABLE.compiler,
        TABLE.machine,
    )
    assert found.classes[0].where.endswith("decode.yaml:7:5")
    assert tuning_text(found) == text


def test_the_order_of_classes_does_not_change_the_text(tmp_path):
    assert tuning_text(replace(TABLE, classes=TABLE.classes[::-1])) == tuning_text(TABLE)
    found = read(tmp_path, tuning_text(TABLE))
    assert [one.ranges["max_len"][0] for one in found.classes] == [8, 100, 1000, 8]


def test_one_more_class_changes_no_line_of_the_others():
    more = replace(TABLE, classes=(*TABLE.classes, tuned(300, 400, {"ordered": True})))
    lines = [tuning_text(one).splitlines() for one in (TABLE, more)]
    changes = [line[0] for line in difflib.ndiff(*lines) if line[0] in "+-"]
    assert changes == ["+"] * 4


def test_a_table_without_classes_can_be_read(tmp_path):
    assert read(tmp_path, tuning_text(replace(TABLE, classes=()))).classes == ()


def test_classes_of_a_call():
    names = {"dtype": "bf16", "head_dim": 64, "mode": "fast", "scale": 1.0, "max_len": 50}
    assert TABLE.fitting(names) == (TABLE.classes[0], TABLE.classes[1], TABLE.classes[3])
    assert TABLE.fitting({**names, "dtype": "f32"}) == ()
    assert TABLE.fitting({"dtype": "bf16", "head_dim": 64}) == ()  # nothing says how long it is
