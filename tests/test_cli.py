"""The command line: exit codes, what goes to stdout and stderr, JSON, and what a user's fault looks like."""

import json
import subprocess
import sys

import pytest

from kgen.cli import COMMANDS, build_parser, main

BAD_BUILD = (
    "build: bad\nvariants:\n  - op: merge_states\n    axes: {arch: [native], dtype: [f23], head_dim: [64]}\n"
)


def run(*argv: str, **more) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kgen", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def test_every_command_has_help_with_examples_and_exit_codes(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        shown = capsys.readouterr().out
        assert end.value.code == 0
        assert "examples:" in shown and "exit codes:" in shown, command
        assert f"kgen {command}" in shown


def test_wrong_usage_is_2(capsys):
    for argv in ([], ["no-such-command"], ["list"], ["bench"], ["build", "host", "--jobs", "0"]):
        with pytest.raises(SystemExit) as end:
            main(argv)
        assert end.value.code == 2
        assert "usage: kgen" in capsys.readouterr().err


def test_check_of_the_shipped_specs(capsys):
    assert main(["check"]) == 0
    out, err = capsys.readouterr()
    assert " operators, " in out and "smollm2.yaml: 44 accepted + 0 rejected = 44" in out
    assert err == ""


def test_a_fault_is_told_on_stderr_with_its_place(tmp_path, capsys):
    spec = tmp_path / "bad.yaml"
    spec.write_text(BAD_BUILD)
    assert main(["check", str(spec)]) == 1
    out, err = capsys.readouterr()
    column = BAD_BUILD.splitlines()[3].index("f23") + 1
    assert f"{spec}:4:{column}: error[K" in err
    assert "^^^" in err and "did you mean 'f32'" in err
    assert "Traceback" not in err and "1 fault" in out


def test_a_fault_as_json(tmp_path, capsys):
    spec = tmp_path / "bad.yaml"
    spec.write_text(BAD_BUILD)
    assert main(["check", str(spec), "--json"]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == "" and found["ok"] is False
    (fault,) = found["diagnostics"]
    assert fault["code"].startswith("K") and fault["place"]["line"] == 4
    assert fault["place"]["file"] == str(spec)


@pytest.mark.parametrize(
    "argv", [["list", "hst"], ["build", "hst"], ["explain", "rejected", "hst", "head_dim=1"]]
)
def test_a_misspelt_build_names_the_nearest(argv, capsys):
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert "no build named 'hst'" in err and "did you mean 'host'" in err


def test_a_fault_under_json_is_json_for_every_command(capsys):
    assert main(["list", "hst", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["diagnostics"][0]["message"] == "there is no build named 'hst'"


def test_check_tells_kinds_of_files_apart(tmp_path, capsys):
    odd = tmp_path / "odd.yaml"
    odd.write_text("bild: mine\n")
    assert main(["check", "specs/layouts.yaml", "specs/targets/gfx942.yaml", str(odd)]) == 1
    out, err = capsys.readouterr()
    assert "specs/layouts.yaml: 5 layouts" in out
    assert "target gfx942" in out
    assert "did you mean 'build'" in err


def test_list_as_json_holds_the_whole_product(capsys):
    assert main(["list", "smollm2", "--arch", "cpu_generic", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["accepted"]) + len(found["rejected"]) == found["product"] == 44
    first = next(v for v in found["accepted"] if v["op"] == "paged_attention")
    assert first["target"] == "cpu_generic"
    assert first["params"]["head_dim"] == 64
    assert len({v["name"] for v in found["accepted"]}) == len(found["accepted"])


def test_list_of_one_operator_and_of_rejections(capsys):
    assert main(["list", "smollm2", "--op", "merge_states", "--arch", "cpu_avx2"]) == 0
    assert capsys.readouterr().out.count("merge_states_cpu_avx2_") == 2
    assert main(["list", "wide", "--rejected"]) == 0
    assert "because" in capsys.readouterr().out


def test_explain_rejected_names_rule_reason_and_place(capsys):
    assert main(["explain", "rejected", "host", "op=paged_attention", "head_dim=100"]) == 0
    shown = capsys.readouterr().out
    assert "head_dim % 8 == 0" in shown
    assert "because a row of head_dim elements is read 8 elements at a time" in shown
    assert "where head_dim = 100" in shown and "specs/ops/paged_attention.yaml:" in shown
    assert "not on an axis of the build, which has 64, 128" in shown


def test_explain_rejected_asks_every_operator_that_has_the_parameters(capsys):
    assert main(["explain", "rejected", "host", "head_dim=100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["op"] for f in found] == [
        "extend_attention",
        "merge_states",
        "paged_attention",
        "reshape_and_cache",
    ]
    assert all(f["rules"][0]["rule"] == "head_dim % 8 == 0" for f in found)


CALL = {
    "num-seqs": 8,
    "num-heads": 32,
    "num-kv-heads": 8,
    "head-dim": 128,
    "block-size": 16,
    "dtype": "bf16",
    "layout": "bshd",
    "max-seq-len": 4096,
}


def explain(capsys, **changes):
    sizes = {**CALL, **{name.replace("_", "-"): value for name, value in changes.items()}}
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    code = main(["explain", "call", "paged_attention", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_explain_call_shows_how_each_free_parameter_was_chosen(capsys):
    code, found = explain(capsys)
    assert code == 0
    assert found["params"]["reuse_kv_times"] == 4
    assert found["params"]["partition_size"] == 512
    choices = {choice["param"]: choice for choice in found["choices"]}
    assert choices["partition_size"]["source"] == "policy auto"
    assert choices["reuse_kv_times"]["want"] == 4
    assert "specs/ops/paged_attention.yaml:" in choices["reuse_kv_times"]["where"]
    assert found["facts"]["group"] == 4


def test_explain_call_follows_arguments_and_environment(capsys, monkeypatch):
    assert explain(capsys, policy="single_pass")[1]["params"]["partition_size"] == 0
    assert explain(capsys, partition_size=256)[1]["choices"][1]["source"] == "argument"
    monkeypatch.setenv("PA_PARTITION_SIZE", "1024")
    found = explain(capsys)[1]
    assert found["params"]["partition_size"] == 1024
    assert found["choices"][1]["source"] == "PA_PARTITION_SIZE"


def test_explain_call_of_what_is_never_generated(capsys):
    code, found = explain(capsys, head_dim=100)
    assert code == 0 and found["variant"] is None
    assert found["refused"]["code"] == "K522"
    assert "8 elements at a time" in found["refused"]["message"]


def test_explain_call_faults(capsys):
    code, found = explain(capsys, num_sequences=8)
    assert code == 1
    assert "did you mean 'num_seqs'" in found["diagnostics"][0]["hint"]
    assert main(["explain", "call", "paged_attention", "--num-seqs"]) == 1
    assert "'--num-seqs' has no value" in capsys.readouterr().err


def test_render_prints_one_and_writes_many(tmp_path, capsys):
    assert main(["render", "golden", "--only", "swap_blocks*"]) == 0
    printed = capsys.readouterr().out
    assert "int swap_blocks_cpu_generic(const int64_t* args)" in printed
    assert main(["list", "golden", "--json"]) == 0
    accepted = json.loads(capsys.readouterr().out)["accepted"]
    assert main(["render", "golden", "--out", str(tmp_path)]) == 0
    assert f"{len(accepted)} written, 0 removed" in capsys.readouterr().out
    assert {path.stem for path in tmp_path.iterdir()} == {variant["name"] for variant in accepted}
    assert (tmp_path / "swap_blocks_cpu_generic.cpp").read_text() == printed


def test_render_brings_a_folder_up_to_date_and_keeps_strangers(tmp_path, capsys):
    main(["render", "golden", "--out", str(tmp_path)])
    victim, *others = sorted(tmp_path.iterdir())
    text = victim.read_text()
    victim.write_text(text + "// changed\n")
    gone = tmp_path / "paged_attention_of_before.cpp"
    gone.write_text(text)
    own = tmp_path / "README.md"
    own.write_text("mine\n")
    times = {path: path.stat().st_mtime_ns for path in others}
    capsys.readouterr()
    assert main(["render", "golden", "--out", str(tmp_path)]) == 0
    assert "1 written, 1 removed" in capsys.readouterr().out
    assert victim.read_text() == text
    assert own.exists() and not gone.exists()
    assert times == {path: path.stat().st_mtime_ns for path in others}


def test_render_of_a_name_that_matches_nothing(capsys):
    assert main(["render", "golden", "--only", "copy_block"]) == 1
    assert "did you mean" in capsys.readouterr().err


def test_build_twice_and_clean(empty_cache, capsys):
    small = empty_cache.parent / "small.yaml"
    small.write_text("build: small\nvariants:\n  - op: copy_blocks\n    axes: {arch: [cpu_generic]}\n")
    assert main(["build", str(small), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["compiled"], first["kernels"]) == (1, ["copy_blocks_cpu_generic"])
    assert main(["build", str(small), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compiled"] == 0
    assert main(["list", str(small), "--resources", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"][0]["resources"]["compile_seconds"] > 0

    library = empty_cache.parent / "library"
    assert main(["build", str(small), "--out", str(library)]) == 0
    assert "1 kernels (0 compiled, 1 from the cache)" in capsys.readouterr().out
    assert (library / "library.json").is_file()

    assert main(["clean", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kernels"]) == 1
    assert main(["clean"]) == 0
    assert "removed 1 kernels" in capsys.readouterr().out
    assert main(["clean", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == []


def test_test_runs_the_cases_of_the_specs(capsys):
    assert main(["test", "host", "--only", "copy_blocks*", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "[pairs] passed" in out and "1 variants: 1 cases passed, 0 failed, 0 skipped" in out


def test_test_fails_when_a_kernel_is_wrong(capsys, monkeypatch):
    from kgen.testing import variants
    from kgen.testing.case import Outcome

    wrong = Outcome("copy_blocks_cpu", "pairs", ("cache: first difference at [0]",))
    monkeypatch.setattr(variants, "outcomes", lambda chosen: iter([wrong]))
    assert main(["test", "host", "--only", "copy_blocks*"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out and "first difference at [0]" in out and "1 failed" in out


def test_a_reader_that_goes_away_is_no_traceback():
    command = f"{sys.executable} -m kgen list wide --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 141
    assert done.stderr == ""


def test_interrupting_is_quiet(monkeypatch, capsys):
    from kgen.commands import check

    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", interrupt)
    assert main(["check"]) == 130
    assert capsys.readouterr().err == "\nkgen: interrupted\n"


def test_a_misspelt_variable_is_pointed_out(capsys, monkeypatch):
    monkeypatch.setenv("KGEN_CHACHE_DIR", "somewhere")
    assert main(["list", "smollm2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "KGEN_CHACHE_DIR means nothing to kgen; did you mean KGEN_CACHE_DIR?" in err
    assert json.loads(out)["product"] == 44


def test_the_module_and_its_exit_code():
    assert run("--version").stdout.startswith("kgen 0.")
    done = run("list", "hst")
    assert done.returncode == 1
    assert done.stderr.startswith("error[K105]") and done.stdout == ""


def test_parsing_needs_no_heavy_import():
    code = "import sys; from kgen.cli import build_parser; build_parser(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "rich", "yaml", "lark", "jinja2"} & set(loaded)
    assert build_parser().prog == "kgen"
