"""Grids: which cells run, what a failing one leaves, what is kept and what it comes to."""

import json
import math
from dataclasses import replace

import pytest
import torch

from kgen import api, ops
from kgen.bench.decode import check_room
from kgen.bench.grid import kernels_of, run_grid, shape_of
from kgen.bench.outcome import Outcome, joined, read_grid
from kgen.bench.pool import Shape
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.benches import cell_filter, holds
from kgen.spec.load import load_bench
from tests.bench.grid_samples import GRID, row, small_grid


@pytest.fixture
def bench(tmp_path):
    return small_grid(tmp_path)


def measured(shapes, **figures):
    def measure(shape, options, progress):
        shapes.append((shape, options))
        return row(shape, **figures)

    return measure


def test_every_cell_is_measured_in_order(bench):
    shapes, said = [], []
    report = run_grid(bench, {"rounds": 7}, progress=said.append, measure=measured(shapes))
    assert [one.cell for one in report.outcomes] == [
        "even 4/2x64 f32 bhsd p16",
        "mixed 4/2x64 f32 bhsd p16",
        "even 8/1x64 f32 bhsd p16",
        "mixed 8/1x64 f32 bhsd p16",
    ]
    mixed = shapes[1][0]
    assert (mixed.ragged, mixed.seed, mixed.batch, mixed.context, mixed.device) == (True, 2, 3, 40, "cpu")
    assert {options["rounds"] for _, options in shapes} == {7}
    assert said[3].startswith("[4/4] mixed 8/1x64 f32 bhsd p16: ")
    assert said[3].endswith("80% of ceiling, 40% of stream, 1.10x other")
    assert [one.means for one in report.outcomes] == [("all", "grouped")] * 2 + [("all",)] * 2


def test_a_grid_may_hold_caches_of_8_bits(tmp_path):
    text = GRID.replace("axes: {dtype: [f32],", "axes: {dtype: [f32, bf16], kv_dtype: [bf16, fp8_e4m3],")
    file = tmp_path / "eight.yaml"
    file.write_text(text)
    bench, shapes = load_bench(file, api.check()), []
    only = cell_filter("kv_dtype == 'fp8_e4m3' and kv_heads == 1 and not ragged", bench, api.check())
    report = run_grid(bench, {}, only=only, measure=measured(shapes))
    names = [f"even 8/1x64 {dtype} kvfp8_e4m3 bhsd p16" for dtype in ("f32", "bf16")]
    assert [one.cell for one in report.outcomes] == names
    assert [(shape.dtype, shape.kv_dtype) for shape, _ in shapes] == [
        ("f32", "fp8_e4m3"),
        ("bf16", "fp8_e4m3"),
    ]
    same = cell_filter("kv_dtype == dtype", bench, api.check())
    assert [cell.kv_dtype for cell in bench.cells() if holds(same, cell)] == [""] * 4
    (params,) = {tuple(sorted(p.items())) for _, p in kernels_of([bench.cells()[-1]], {})}
    assert dict(params)["kv_dtype"] == "fp8_e4m3"


def test_a_condition_chooses_cells(bench):
    shapes = []
    only = cell_filter("ragged and kv_heads == 1 or workload == 'even' and heads < 8", bench, api.check())
    run_grid(bench, {}, only=only, measure=measured(shapes))
    assert [(shape.ragged, shape.kv_heads) for shape, _ in shapes] == [(False, 2), (True, 1)]
    nothing = cell_filter("batch > 100", bench, api.check())
    with pytest.raises(KgenError, match="no cell of the grid small is left"):
        run_grid(bench, {}, only=nothing, measure=measured(shapes))


@pytest.mark.parametrize(
    ("text", "code", "near"),
    [("head_dims == 64", "K205", "head_dim"), ("batch", "K208", "bool"), ("batch ==", "K110", "")],
)
def test_a_faulty_condition_is_told_at_its_place(bench, text, code, near):
    with pytest.raises(KgenError) as caught:
        cell_filter(text, bench, api.check())
    (fault,) = caught.value.diagnostics
    assert fault.code == code and str(fault.span).startswith("--only:1:") and near in str(fault)


def test_a_cell_that_fails_is_told_and_the_others_run(bench):
    said = []

    def measure(shape, options, progress):
        if shape.ragged and shape.kv_heads == 2:
            raise RuntimeError("out of memory\nand more")
        if shape.ragged:
            raise KgenError(Diagnostic("K522", "never generated"))
        return row(shape)

    report = run_grid(bench, {}, progress=said.append, measure=measure)
    assert [one.failed for one in report.outcomes] == [
        "",
        "RuntimeError: out of memory",
        "",
        "K522: never generated",
    ]
    assert report.failed == 2
    assert said[1] == "[2/4] mixed 4/2x64 f32 bhsd p16: failed: RuntimeError: out of memory"
    assert [mean.cells for mean in report.means()] == [2, 1]


def test_why_a_peer_is_absent_is_told_once(bench):
    said = []

    def measure(shape, options, progress):
        progress("flashinfer takes no part: it is not here")
        return row(shape)

    run_grid(bench, {}, progress=said.append, measure=measure)
    assert sum("takes no part" in line for line in said) == 1


def test_threads_and_options_of_a_grid(bench):
    before, shapes = torch.get_num_threads(), []
    report = run_grid(bench, {"threads": 1, "peers": ["none"], "ragged": False}, measure=measured(shapes))
    assert {shape.threads for shape, _ in shapes} == {1}
    assert torch.get_num_threads() == before
    assert report.machine["device"] and report.versions["torch"] == torch.__version__
    with pytest.raises(KgenError, match="--head-dim is decided by the grid"):
        run_grid(bench, {"head_dim": 64}, measure=measured(shapes))
    with pytest.raises(KgenError, match="no peer on cpu is named"):
        run_grid(bench, {"peers": ["nobody"]}, measure=measured(shapes))


def test_what_is_kept_can_be_read_again(bench, tmp_path):
    out, lengths = tmp_path / "run.json", []

    def measure(shape, options, progress):
        lengths.append(len(json.loads(out.read_text())["cells"]) if out.exists() else 0)
        return row(shape, share=0.5 + 0.1 * len(lengths), ratio=0.9 + 0.05 * len(lengths))

    report = run_grid(bench, {}, command="kgen bench decode --grid small", out=out, measure=measure)
    assert lengths == [0, 1, 2, 3]  # each cell is kept before the next begins
    again = read_grid(out)
    assert again.json() == report.json()
    assert json.loads(json.dumps(report.json())) == json.loads(out.read_text())
    assert again.command == "kgen bench decode --grid small"
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".json"] == ["run.json"]


def test_parts_of_a_grid_are_one(bench):
    def part(text, share):
        only = cell_filter(text, bench, api.check())
        return run_grid(bench, {}, only=only, command=text, measure=measured([], share=share))

    whole = joined([part("heads == 4", 0.5), part("kv_heads == 1", 0.6), part("ragged and heads == 4", 0.7)])
    assert {one.cell: one.of_ceiling for one in whole.outcomes} == {
        "even 4/2x64 f32 bhsd p16": 0.5,
        "mixed 4/2x64 f32 bhsd p16": 0.7,
        "even 8/1x64 f32 bhsd p16": 0.6,
        "mixed 8/1x64 f32 bhsd p16": 0.6,
    }
    assert whole.command.splitlines() == ["heads == 4", "kv_heads == 1", "ragged and heads == 4"]
    other = replace(whole, machine={"device": "another chip"})
    with pytest.raises(KgenError, match="another chip do not make one picture"):
        joined([whole, other])


def test_means_and_the_worst(bench):
    figures = iter([(0.6, 0.9), (0.9, 1.2), (0.5, 0.96), (0.8, 1.0)])

    def measure(shape, options, progress):
        share, ratio = next(figures)
        return row(shape, share=share, ratio=ratio)

    every, grouped = run_grid(bench, {}, measure=measure).means()
    assert every.of_ceiling == pytest.approx(math.prod([0.6, 0.9, 0.5, 0.8]) ** 0.25)
    assert every.of_stream == pytest.approx(every.of_ceiling / 2)
    assert every.ratio == pytest.approx(math.prod([0.9, 1.2, 0.96, 1.0]) ** 0.25)
    assert every.worst_share == (0.5, "even 8/1x64 f32 bhsd p16")
    assert every.worst_ratio == (0.9, "even 4/2x64 f32 bhsd p16")
    assert every.behind == ("even 4/2x64 f32 bhsd p16", "even 8/1x64 f32 bhsd p16")
    assert (grouped.name, grouped.cells) == ("grouped", 2)
    assert grouped.ratio == pytest.approx((0.9 * 1.2) ** 0.5)


def test_without_peers_there_is_no_mean_of_ratios(bench):
    (every, _) = run_grid(bench, {}, measure=measured([], best="")).means()
    assert (every.ratio, every.worst_ratio, every.behind) == (None, None, ())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [{"cell": "x", "means": [], "row": {}}]}'])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(KgenError, match=r"other.json is no result of a grid"):
        read_grid(file)
    with pytest.raises(KgenError, match="cannot read"):
        read_grid(tmp_path / "absent.json")


def test_a_cell_is_measured_for_good(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("kgen.bench.pool.last_level_cache", lambda device: 1 << 12)
    only = cell_filter("kv_heads == 2", bench, api.check())
    report = run_grid(bench, {"rounds": 1, "threads": 1, "peers": ["sdpa"]}, only=only)
    assert [one.failed for one in report.outcomes] == ["", ""]
    assert all(one.row["best_peer"] == "sdpa" for one in report.outcomes)


def test_the_kernels_of_a_grid_are_known_beforehand(bench, monkeypatch, empty_cache):
    wanted = kernels_of(bench.cells(), {"arch": "cpu_generic", "partition_size": 64})
    assert [op for op, _ in wanted] == ["paged_attention"] * 4
    reuse = [params["reuse_kv_times"] for _, params in wanted]
    assert reuse == [2, 2, 8, 8]
    assert {(params["arch"], params["partition_size"]) for _, params in wanted} == {("cpu_generic", 64)}
    built = []
    monkeypatch.setattr(api, "build_variants", lambda variants, jobs: built.extend(variants) or ())
    monkeypatch.setattr("kgen.build.library.register_library", lambda *args, **kwargs: None)
    never = ("paged_attention", {**wanted[0][1], "head_dim": 100})
    assert api.build_ahead([*wanted, never]) == len(built) == 2
    monkeypatch.setenv("KGEN_JIT", "0")
    assert kernels_of(bench.cells(), {}) == []


def test_calls_are_measured_by_exact_kernels_though_a_larger_one_is_there(bench, empty_cache, monkeypatch):
    call = {"arch": "cpu_generic", "partition_size": 64}
    (op, larger) = kernels_of(bench.cells(), call)[-1]
    assert larger["reuse_kv_times"] == 8
    api.jit(op, larger)
    sizes = {"num_heads": 4, "num_kv_heads": 2, "num_seqs": 1, "max_seq_len": 9}
    sizes |= {name: value for name, value in larger.items() if name != "reuse_kv_times"}
    assert ops.dispatcher().registry.refresh()
    assert ops.dispatcher().explain(op, sizes).params == larger
    assert [params["reuse_kv_times"] for _, params in kernels_of(bench.cells(), call)] == [2, 2, 8, 8]
    monkeypatch.setattr("kgen.bench.pool.last_level_cache", lambda device: 1 << 12)
    only = cell_filter("kv_heads == 2 and not ragged", bench, api.check())
    options = {**call, "rounds": 1, "threads": 1, "peers": ["none"]}
    (outcome,) = run_grid(bench, options, only=only).outcomes
    assert outcome.row["variant"] == "paged_attention_cpu_generic_f32_d64_b16_bhsd_r2_p64"


def test_what_does_not_fit_is_not_begun(monkeypatch):
    shape = Shape(64, 32, 8, 128, 4096, 16, "bshd", "bf16", 2)
    monkeypatch.setattr("kgen.bench.decode.available_memory", lambda: 4 << 30)
    check_room(shape, gathered=False)
    with pytest.raises(KgenError, match=r"need 4\.\d GiB; 4\.0 are free"):
        check_room(shape, gathered=True)


def test_the_shipped_grids_hold_the_cells_they_name():
    catalog = api.check()
    full = load_bench(api.bench_path("full"), catalog)
    cells = full.cells()
    assert len(cells) == len({cell.name for cell in cells}) == 5 * 7 * 2 * 2
    assert {shape_of(cell, "cuda:0", {"threads": None}).dtype for cell in cells} == {"bf16"}
    assert [sum(holds(over, cell) for cell in cells) for over in full.means.values()] == [140, 120]
    ragged = next(cell for cell in cells if cell.workload.ragged)
    lengths = shape_of(ragged, "cuda:0", {"threads": None}).lengths
    assert len(lengths) == 64 and min(lengths) >= 1 and 7000 < max(lengths) <= 8192
    with pytest.raises(KgenError, match=r"no grid named 'ful'"):
        api.bench_path("ful")


def test_a_failed_outcome_is_one_line():
    assert Outcome("a cell", failed="why").line() == "a cell: failed: why"
