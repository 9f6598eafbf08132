"""The whole demo on a small network: every step runs, and a wrong token is an error."""

import dataclasses
import io

import pytest
import torch

pytest.importorskip("transformers")

from rich.console import Console

from kgen.demo import decode, job, model, prompts
from kgen.demo.report import Report

LAYERS, STEPS, LENGTHS = 2, 5, (4, 37)
SMALL = {
    **model.SHAPE,
    "hidden_size": 144,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "vocab_size": 101,
    "initializer_range": 0.3,
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
    monkeypatch.setattr(model, "SHAPE", SMALL)
    draw = torch.Generator().manual_seed(0)
    chosen = [torch.randint(101, (n,), generator=draw).tolist() for n in LENGTHS]
    monkeypatch.setattr(prompts, "encode", lambda tokenizer, vocabulary: chosen)

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
    assert found["prompts"] == list(LENGTHS) and found["model"]["real"] is False
    exact, compact = found["kgen"]
    assert exact["tokens"] == found["stock"]["tokens"] and len(exact["tokens"][0]) == STEPS
    assert sorted(exact["kernels"].values()) == [LAYERS * STEPS, LAYERS * STEPS]
    assert all("_bf16_" in name and "_b32_" in name for name in compact["kernels"])
    assert compact["cache_bytes"] < exact["cache_bytes"]
    assert compact["comparison"]["logit_error"] > exact["comparison"]["logit_error"]
    assert "identical: all 10 tokens are those of the stock model" in shown


def test_a_different_token_is_exit_code_1_and_is_explained(demo, monkeypatch):
    def wrong(*arguments):
        right = honest(*arguments)
        tokens = [list(row) for row in right.tokens]
        tokens[1][2] = (tokens[1][2] + 1) % 101
        return dataclasses.replace(right, tokens=tokens)

    honest = decode.decode_paged
    monkeypatch.setattr(decode, "decode_paged", wrong)
    code, found, shown = demo()
    assert code == 1 and found["ok"] is False
    (split,) = found["kgen"][0]["comparison"]["splits"]
    assert (split["prompt"], split["step"]) == (1, 2)
    assert "the tokens differ" in shown and "prompt 2, token 3" in shown


def test_a_wrong_kernel_stops_the_demo_before_it_decodes(demo, monkeypatch):
    from kgen.testing import variants
    from kgen.testing.case import Outcome

    wrong = Outcome("paged_attention_x", "ragged", ("out[0, 0, 0]: got 1, exact 2",))
    monkeypatch.setattr(variants, "outcomes", lambda chosen: iter([wrong]))
    code, found, shown = demo()
    assert code == 1 and "stock" not in found
    assert "paged_attention_x [ragged]: out[0, 0, 0]: got 1, exact 2" in shown
