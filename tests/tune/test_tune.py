"""`kgen tune` with times that are given: classes, tables, what is kept and what is written anew."""

import itertools
import json

import pytest

from kgen import api
from kgen.cli import main
from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch.dispatcher import Dispatcher
from kgen.spec.load import load_tuning
from kgen.spec.tuning import tuning_text
from kgen.tune import session
from kgen.tune.classes import reach
from kgen.tune.run import file_of, rules_choice, tune
from tests.tune.samples import BUILD, GRID, few_classes, seconds


@pytest.fixture
def classes(tmp_path):
    return few_classes(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "tuned"


def policy():
    return api.compiler().policy("paged_attention")


def test_classes_are_cells_that_several_variants_serve(classes):
    assert [one.name for one in classes] == [
        "cpu_generic b1_4k 8/2x64 f32 bshd p16",
        "cpu_generic b128_1k 8/2x64 f32 bshd p16",
    ]
    for one in classes:
        assert len(one.variants) == 6
        assert {variant.params["dtype"] for variant in one.variants} == {"f32"}
        assert not any(variant.simulated for variant in one.variants)
    assert classes[1].exact == {
        "dtype": "f32",
        "kv_dtype": "f32",
        "head_dim": 64,
        "block_size": 16,
        "layout": "bshd",
        "variant": "causal",
        "num_heads": 8,
        "num_kv_heads": 2,
    }
    assert classes[1].ranges == {"num_seqs": (64, 255), "max_seq_len": (512, 2047)}


@pytest.mark.parametrize(
    ("value", "low", "high"), [(1, 1, 1), (2, 1, 3), (3, 2, 5), (4, 2, 7), (16, 8, 31), (1024, 512, 2047)]
)
def test_how_far_a_class_reaches(value, low, high):
    assert reach(value) == (low, high)


def test_points_four_times_apart_leave_no_gap():
    ends = [reach(4**power) for power in range(10)]
    assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(ends))


def test_the_rule_is_asked_among_the_variants_of_the_build(classes):
    long, many = (rules_choice(one, policy()) for one in classes)
    assert long.endswith("_r4_p512")  # 8 heads over 4,096 keys are split, 1,024 over 1,024 are not
    assert many.endswith("_r4_p0")


def test_what_is_faster_is_used(classes):
    found = tune(classes[0], policy(), lambda one: seconds(one, r4_p512=[2e-3] * 3, r1_p1024=[1e-3] * 3))
    assert found.rule.endswith("_r4_p512") and found.best.endswith("_r1_p1024")
    entry = found.entry()
    assert entry.use == {"reuse_kv_times": 1, "partition_size": 1024}
    assert entry.timings["r4_p512"] == "2000.0 us (2000.0 to 2000.0)"
    assert list(entry.timings) == ["r1_p0", "r1_p512", "r1_p1024", "r4_p0", "r4_p512", "r4_p1024"]
    assert found.line().endswith(
        "r1_p1024 1000.0 us (1000.0 to 1000.0) beats the rule's r4_p512 2000.0 us (2000.0 to 2000.0)"
    )


def test_what_is_not_faster_leaves_the_rule(classes):
    found = tune(classes[0], policy(), seconds)
    assert found.entry().use == {} and "is not beaten" in found.line()


def test_the_same_times_give_the_same_bytes(classes, out, tmp_path):
    def timer(one):
        return seconds(one, r4_p512=2.0, r1_p0=0.5)

    (first,) = session.run(classes, out, timer=timer).files
    before = first.read_bytes()
    (again,) = session.run(classes[::-1], tmp_path / "other", timer=timer).files
    assert again.read_bytes() == before
    assert session.run(classes, out, timer=timer).files == (first,) and first.read_bytes() == before
    assert first.name == "paged_attention.cpu_generic.f32_d64_b16_bshd.yaml"


def table(file):
    return load_tuning(file, api.check().ops)


def uses(file):
    return [one.use.get("partition_size") for one in table(file).classes]


def test_a_class_measured_again_is_replaced_and_the_others_stay(classes, out):
    def timer(partition):
        return lambda one: seconds(one, **{"r4_p512": 2.0, f"r1_p{partition}": 0.5})

    (file,) = session.run(classes, out, timer=timer(0)).files
    assert uses(file) == [0, 0]
    session.run(classes[:1], out, timer=timer(1024))
    assert sorted(uses(file)) == [0, 1024]


def test_a_table_of_another_compiler_is_written_anew(classes, out, monkeypatch):
    (file,) = session.run(classes, out, timer=seconds).files
    monkeypatch.setattr(api, "compiler_version", lambda target: "cxx: another 1.0")
    said = []
    session.run(classes[:1], out, timer=seconds, progress=said.append)
    assert (table(file).compiler, len(table(file).classes)) == ("cxx: another 1.0", 1)
    assert said[0].endswith("it is written anew")


def test_a_faulty_table_is_not_written_over(classes, out):
    out.mkdir()
    file = file_of(classes[0], out)
    file.write_text("tuned: paged_attention\ntarget: [")
    with pytest.raises(KgenError):
        session.run(classes, out, timer=seconds)
    assert file.read_text() == "tuned: paged_attention\ntarget: ["


def test_a_class_that_fails_is_told_and_the_others_are_kept(classes, out):
    def timer(one):
        if one is classes[0]:
            raise KgenError(Diagnostic("K581", "a row differs"))
        return seconds(one)

    said = []
    found = session.run(classes, out, timer=timer, progress=said.append)
    assert found.failed == {classes[0].name: "K581: a row differs"}
    assert "failed: K581: a row differs" in said[0] and said[1].startswith("[2/2]")
    assert len(table(found.files[0]).classes) == 1
    with pytest.raises(KgenError, match="no class of calls is served by two variants"):
        session.run((), out, timer=timer)


def test_a_target_that_is_not_here_is_left_out(classes, monkeypatch):
    monkeypatch.setattr(session, "device_of", lambda variant: None)
    said = []
    assert session.runnable(classes, said.append) == ()
    assert said == ["cpu_generic is left out: this machine lacks "]


def test_a_call_takes_what_the_table_says(classes, out, monkeypatch, caplog, empty_cache):
    """From times to the kernel of a call, through the files."""
    monkeypatch.setenv("KGEN_TUNE_DIR", str(out))
    (file,) = session.run(classes, out, timer=lambda one: seconds(one, r4_p512=2.0, r1_p1024=0.5)).files
    sizes = {**classes[0].exact, "num_seqs": 1, "max_seq_len": 5000, "arch": "cpu_generic"}

    def choose(**changes):
        found = Dispatcher(api.compiler()).explain("paged_attention", {**sizes, **changes})
        return found.params["partition_size"], found.choices[1].source, found.choices[1].where

    assert choose() == (1024, "tuning table", f"{file}:16:5")
    assert choose(max_seq_len=8191)[:2] == (1024, "tuning table")
    assert choose(max_seq_len=8192)[:2] == (512, "policy auto")
    assert choose(num_seqs=2)[:2] == (512, "policy auto")
    assert choose(num_heads=16)[:2] == (512, "policy auto")
    assert choose(policy="single_pass")[:2] == (0, "policy single_pass")
    assert choose(partition_size=256)[:2] == (256, "argument")
    monkeypatch.setattr(api, "compiler_version", lambda target: "cxx: another 1.0")
    assert choose()[:2] == (512, "policy auto")
    (told,) = [record.message for record in caplog.records if "passed over" in record.message]
    assert told.startswith(f"{file} is passed over: it is of kernels by {table(file).compiler};")
    assert told.endswith("the compiler here is cxx: another 1.0")


def test_a_value_that_is_never_generated_is_passed_over(classes, out, monkeypatch, caplog, empty_cache):
    monkeypatch.setenv("KGEN_TUNE_DIR", str(out))
    (file,) = session.run(classes, out, timer=lambda one: seconds(one, r4_p512=2.0, r1_p1024=0.5)).files
    file.write_text(file.read_text().replace("partition_size: 1024", "partition_size: 1000"))
    sizes = {**classes[0].exact, "num_seqs": 1, "max_seq_len": 5000, "arch": "cpu_generic"}
    found = Dispatcher(api.compiler()).explain("paged_attention", sizes)
    assert (found.params["partition_size"], found.choices[1].source) == (512, "policy auto")
    assert "is passed over: no kernel has reuse_kv_times 1, partition_size 1000" in caplog.text


def test_the_command(tmp_path, out, monkeypatch, capsys):
    (tmp_path / "some.yaml").write_text(BUILD)
    (tmp_path / "few.yaml").write_text(GRID)
    asked, built = {}, []

    def measurer(options):
        asked.update(options)
        return lambda one: seconds(one, r4_p512=2.0, r1_p0=0.5)

    monkeypatch.setattr(session, "measurer", measurer)
    monkeypatch.setattr(api, "build_matrix", lambda matrix, jobs, chosen: built.extend(chosen))
    words = ["tune", str(tmp_path / "some.yaml"), "--grid", str(tmp_path / "few.yaml"), "--out", str(out)]
    assert main([*words, "--rounds", "5", "--threads", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["best"].rpartition("_r")[2] for one in document["classes"]] == ["1_p0", "1_p0"]
    assert asked == {"rounds": 5, "threads": 1} and len(built) == 6
    (file,) = document["files"]
    assert tuning_text(table(file)) in (out / "paged_attention.cpu_generic.f32_d64_b16_bshd.yaml").read_text()
    assert main([*words, "--only", "batch == 1"]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("kgen: [1/1]") == 1 and "2.00" not in captured.err
    assert "r1_p0" in captured.out
    assert main(["check", file]) == 0
    assert "2 classes of paged_attention on cpu_generic" in capsys.readouterr().out
