"""The whole demo on a small network: every step runs, and a wrong token is an error."""

import io

import pytest
import torch

pytest.importorskip("transformers")

from rich.console import Console

from kgen.demo import job, prompts, stock
from kgen.demo.report import Report
from kgen.engine import TokenChat
from kgen.integrations import load

LAYERS, STEPS, LENGTHS = 2, 5, (4, 37)
SMALL = {
    **load.SHAPE,
    "hidden_size": 144,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "vocab_size": 101,
    "initializer_range": 0.3,
    "eos_token_id": None,
}
BUILD = """
build: small
variants:
  - op: paged_attention
    axes: {arch: [native], dtype: [f32], head_dim: [64], block_size: [16], layout: [bshd],
           reuse_kv_times: [3], partition_size: [0]}
  - op: reshape_and_cache
    axes: {arch: [native], dtype: [f32, bf16], head_dim: [64], block_size: [16, 32], layout: [bshd, bhsd]}
"""


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """Run the demo; returns its exit code, its document and what it printed."""
    spec = tmp_path / "small.yaml"
    spec.write_text(BUILD)
    monkeypatch.setattr(load, "SHAPE", SMALL)
    draw = torch.Generator().manual_seed(0)
    beginning, *added = [torch.randint(3, 101, (n,), generator=draw).tolist() for n in (64, *LENGTHS)]
    monkeypatch.setattr(
        prompts, "conversations", lambda *a: [TokenChat(beginning, [turn] * 3) for turn in added]
    )

    def run():
        text = io.StringIO()
        report = Report(Console(file=text, width=120))
        options = job.Options(str(spec), STEPS, random_weights=True, quiet=True)
        return job.main(options, report), report.document, text.getvalue()

    return run


def test_every_step_reports_and_the_tokens_are_identical(demo):
    code, found, shown = demo()
    assert code == 0 and found["ok"] is True
    assert (found["matrix"]["product"], found["matrix"]["accepted"], found["build"]["kernels"]) == (9, 9, 9)
    assert found["verify"]["failed"] == 0 < found["verify"]["cases"]
    assert found["sessions"] == len(LENGTHS) and found["model"]["real"] is False
    plain, cached, compact = found["kgen"]
    assert plain["answers"] == cached["answers"] == found["stock"]["answers"]
    assert len(plain["answers"]["2.3"]) == STEPS and len(plain["answers"]) == 6
    assert (plain["prefix_cache"], cached["prefix_cache"], compact["prefix_cache"]) == (False, True, True)
    assert "identical: all 30 tokens are those of the stock model, with and without the cache" in shown


def test_what_the_cache_saved_is_counted(demo):
    _, found, shown = demo()
    plain, cached, compact = found["kgen"]
    whole = 3 * 2 * 64 + (1 + 2 + 3) * sum(LENGTHS) + (0 + 1 + 2) * 2 * STEPS
    assert plain["stats"]["prefill_tokens"] == found["stock"]["prompt_tokens"] == whole
    assert plain["stats"]["reused_tokens"] == 0 < cached["stats"]["reused_tokens"]
    saved = found["saved"]["prompt_tokens"]
    assert saved == cached["stats"]["reused_tokens"] == whole - cached["stats"]["prefill_tokens"]
    assert f"saved {saved} of {whole} prompt tokens ({saved / whole:.0%})" in shown
    assert compact["peak_bytes"] < cached["peak_bytes"] < plain["peak_bytes"]


def test_prompts_go_through_extend_attention_in_the_layout_of_each_run(demo):
    _, found, shown = demo()
    for run, kind in zip(
        found["kgen"], ("_f32_d64_b16_bshd", "_f32_d64_b16_bshd", "_bf16_d64_b32_bhsd"), strict=True
    ):
        ops = {name.partition("_cpu")[0] for name in run["kernels"]}
        assert {"extend_attention", "paged_attention", "reshape_and_cache"} <= ops
        assert all(kind in name for name in run["kernels"] if not name.startswith("merge"))
        assert all(name in shown for name in run["kernels"])
        chunks = sum(calls for name, calls in run["kernels"].items() if name.startswith("extend"))
        # More than a forward pass for each of three turns: the first prompts are longer than a chunk.
        assert chunks > 3 * LAYERS and chunks % LAYERS == 0


def test_a_different_token_is_exit_code_1_and_is_explained(demo, monkeypatch):
    def wrong(*arguments):
        found = honest(*arguments)
        tokens = list(found.answers[1, 0])
        tokens[2] = (tokens[2] + 1) % 101
        found.answers[1, 0] = tuple(tokens)
        return found

    honest = stock.run_stock
    monkeypatch.setattr(stock, "run_stock", wrong)
    code, found, shown = demo()
    assert code == 1 and found["ok"] is False
    (split,) = found["kgen"][0]["comparison"]["splits"]
    assert (split["session"], split["turn"], split["step"]) == (1, 0, 2)
    assert "the tokens differ" in shown and "session 2, turn 1, token 3: stock " in shown


def test_a_wrong_kernel_stops_the_demo_before_it_chats(demo, monkeypatch):
    from kgen.testing import variants
    from kgen.testing.case import Outcome

    wrong = Outcome("paged_attention_x", "ragged", ("out[0, 0, 0]: got 1, exact 2",))
    monkeypatch.setattr(variants, "outcomes", lambda chosen: iter([wrong]))
    code, found, shown = demo()
    assert code == 1 and "stock" not in found
    assert "paged_attention_x [ragged]: out[0, 0, 0]: got 1, exact 2" in shown
