"""`kgen explain call extend_attention`: the variant a call gets, and why one gets none."""

import json
from dataclasses import replace

import pytest

from kgen import ops
from kgen.cli import main
from kgen.dispatch.model import Skipped

CALL = [
    *("explain", "call", "extend_attention", "num_seqs=4", "total_q=2048", "num_heads=32", "num_kv_heads=8"),
    *("head_dim=128", "block_size=16", "layout=bshd", "max_extend_len=512", "max_seq_len=4096"),
]


@pytest.mark.parametrize(("asked", "variant"), [([], "causal"), (["variant=sinks"], "sinks")])
def test_the_variant_of_a_call(capsys, empty_cache, asked: list[str], variant: str):
    assert main([*CALL, "dtype=bf16", "arch=cpu_generic", *asked]) == 0
    out = capsys.readouterr().out
    assert "a variant of extend_attention that is not built yet" in out
    assert "arch = cpu_generic, dtype = bf16, kv_dtype = bf16, head_dim = 128" in out
    assert f"variant = {variant}\n" in out
    assert "max_seq_len = 4096" in out and "group = 4" in out


def test_a_call_that_no_kernel_can_serve(capsys, empty_cache):
    assert main([*CALL, "dtype=f32", "arch=sm_90"]) == 0
    out = capsys.readouterr().out
    assert "no variant of extend_attention: the call raises" in out
    assert "on a GPU matrix instructions multiply keys and values of 16 bits that lie dim by dim" in out


def test_as_json(capsys, empty_cache):
    assert main([*CALL, "dtype=bf16", "arch=sm_90", "variant=sliding", "--json"]) == 0
    params = json.loads(capsys.readouterr().out)["params"]
    assert params["variant"] == "sliding" and params["arch"] == "sm_90"


@pytest.mark.parametrize(
    ("asked", "told"),
    [(["dtype=bf16", "variant=sink"], "did you mean 'sinks'?"), ([], "nothing says what dtype is")],
)
def test_what_is_refused(capsys, empty_cache, asked: list[str], told: str):
    assert main([*CALL, *asked]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("count", [5, 7])
def test_a_few_of_those_passed_over_are_named(capsys, empty_cache, monkeypatch, count: int):
    explain = ops.dispatcher().explain
    stale = tuple(Skipped(f"stale{n}", "built from other templates") for n in range(count))
    monkeypatch.setattr(
        ops.dispatcher(), "explain", lambda op, sizes: replace(explain(op, sizes), skipped=stale)
    )
    assert main([*CALL, "dtype=bf16", "arch=cpu_generic"]) == 0
    out = capsys.readouterr().out
    assert [n for n in range(count) if f"passed over stale{n}: built" in out] == [0, 1, 2, 3, 4]
    assert ("and 2 more are passed over" in out) == (count == 7)
