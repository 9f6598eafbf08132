"""Tuning tables in dispatch: which class decides, what is passed over, and what is said of it."""

import logging

import pytest

from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch.model import Bound
from kgen.tuning import TunedClass, TuningTable
from tests.dispatch.test_select import bound
from tests.dispatch.toy import toy_dispatcher


def tuned(use, where="table:1:1", exact=None, **ranges):
    return TunedClass(exact or {"num_heads": 8}, ranges or {"limit": (0, 9000)}, use, where=where)


def selection(dispatcher, policy=None, **facts):
    names = {k: v for k, v in bound(**facts).names.items() if k != "arch"}
    return dispatcher.choose(dispatcher.policy("toy"), Bound(names, {}, {}, {}, frozenset(), "cpu", policy))


def with_classes(compiler, *classes, target="toy", built=({}, {"partition_size": 512})):
    compiler.tables = (TuningTable("toy", target, "", classes),)
    return toy_dispatcher(compiler, *built)


def wanted(found):
    return found.params["partition_size"], found.choices[1].source


def test_the_first_class_of_a_call_decides(compiler):
    dispatcher = with_classes(
        compiler,
        tuned({"partition_size": 512}, exact={"num_heads": 16}),
        tuned({"partition_size": 512}, limit=(50, 60), num_rows=(1, 3)),
        tuned({"partition_size": 0}, limit=(50, 500)),
    )
    assert wanted(selection(dispatcher, limit=50)) == (512, "tuning table")
    assert wanted(selection(dispatcher, limit=60, num_rows=4)) == (0, "tuning table")
    assert wanted(selection(dispatcher, limit=61)) == (0, "tuning table")
    assert wanted(selection(dispatcher, limit=500)) == (0, "tuning table")
    assert wanted(selection(dispatcher, limit=501)) == (512, "policy long")
    assert wanted(selection(dispatcher, limit=49)) == (0, "policy long")


def test_a_table_is_of_one_target(compiler):
    dispatcher = with_classes(compiler, tuned({"partition_size": 0}), target="other")
    assert wanted(selection(dispatcher, limit=700)) == (512, "policy long")


def test_a_class_that_leaves_the_rules_alone_is_known(compiler):
    dispatcher = with_classes(compiler, tuned({}, where="table:9:5"), tuned({"partition_size": 0}))
    found = selection(dispatcher, limit=700)
    assert wanted(found) == (512, "policy long")
    assert found.tuned.where == "table:9:5"


@pytest.mark.parametrize("jit", ["0", "1"])
def test_what_no_kernel_has_is_passed_over_and_told_once(compiler, monkeypatch, caplog, jit):
    monkeypatch.setenv("KGEN_JIT", jit)
    dispatcher = with_classes(compiler, tuned({"partition_size": 100, "reuse": 4}, where="table:3:5"))
    with caplog.at_level(logging.WARNING, "kgen"):
        for _ in range(3):
            assert wanted(selection(dispatcher, limit=700)) == (512, "policy long")
    assert [record.message for record in caplog.records] == [
        "table:3:5 of a tuning table is passed over: no kernel has partition_size 100, reuse 4"
    ]


def test_what_can_be_built_is_not_passed_over(compiler, monkeypatch):
    dispatcher = with_classes(compiler, tuned({"partition_size": 256, "reuse": 4}))
    found = selection(dispatcher, limit=700)
    assert wanted(found) == (256, "tuning table") and found.kernel is None
    monkeypatch.setenv("KGEN_JIT", "0")
    assert wanted(selection(dispatcher, limit=700)) == (512, "policy long")


def test_a_scalar_that_steers_nothing_cannot_be_asked(compiler, caplog):
    dispatcher = with_classes(compiler, tuned({"partition_size": 0}, exact={"fail": 0}))
    assert wanted(selection(dispatcher, limit=700)) == (512, "policy long")
    assert "fail steers no call" in caplog.text


def test_another_folder_is_read_afresh(compiler, monkeypatch, tmp_path):
    dispatcher = with_classes(compiler, tuned({"partition_size": 0}))
    assert wanted(selection(dispatcher, limit=700)) == (0, "tuning table")
    compiler.tables = ()
    assert wanted(selection(dispatcher, limit=700)) == (0, "tuning table")
    monkeypatch.setenv("KGEN_TUNE_DIR", str(tmp_path))
    assert wanted(selection(dispatcher, limit=700)) == (512, "policy long")


def test_a_faulty_table_is_an_error_of_the_call(compiler, monkeypatch):
    dispatcher = with_classes(compiler)

    def faulty(op, target):
        raise KgenError(Diagnostic("K201", "a tuning table has no key 'x'"))

    monkeypatch.setattr(compiler, "tuning", faulty)
    with pytest.raises(KgenError, match="no key 'x'"):
        selection(dispatcher, limit=700)
