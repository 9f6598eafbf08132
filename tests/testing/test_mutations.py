"""The harness can fail: a float32 stand-in for each operator passes, and every small fault is found."""

import dataclasses
import math

import pytest
import torch

from kgen import reference
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.load import load_catalog
from kgen.testing import runner
from kgen.testing.attention import layout_of
from kgen.testing.case import Inputs
from kgen.variants.matrix import make_variant
from kgen.variants.model import Variant

CATALOG = load_catalog()


def variant(op: str, **params) -> Variant:
    made = make_variant(CATALOG.ops[op], {"arch": "cpu_generic", **params}, CATALOG)
    assert isinstance(made, Variant)
    return made


def attention_variant(dtype="f32", **params) -> Variant:
    base = {"head_dim": 40, "block_size": 16, "layout": "bhsd_vt", "reuse_kv_times": 3, "partition_size": 0}
    return variant("paged_attention", dtype=dtype, **{**base, **params})


@dataclasses.dataclass
class StandIn:
    """paged_attention in float32 torch, with one fault built in or none."""

    fault: str = ""

    def __call__(self, inputs: Inputs) -> None:
        refuse_bad_rows(inputs)
        for row, length in enumerate(inputs["seq_lens"].tolist()):
            out, lse = self.row(inputs, row, length)
            inputs["out"][row] = out.to(inputs["out"].dtype)
            inputs["lse"][row] = lse * (math.log2(math.e) if self.fault == "base 2" else 1.0)
        if self.fault == "spill":
            inputs.placed["out"].storage[0] = 0.0
        if self.fault == "input written":
            inputs["q"][0, 0, 0] += 1.0

    def row(self, inputs: Inputs, row: int, length: int):
        heads, scale = inputs["q"].shape[1], float(inputs.scalars["softmax_scale"])
        if length == 0:
            empty = torch.full((heads,), -1e30 if self.fault == "finite minus infinity" else -torch.inf)
            return torch.zeros(heads, inputs["q"].shape[2]), empty
        if self.fault == "tail" and length % inputs.case.variant.params["block_size"]:
            length += 1
        table = inputs["block_table"][row]
        k, v = reference.gather(inputs["k_cache"], inputs["v_cache"], layout_of(inputs.case), table, length)
        if self.fault == "dropped token" and length > 70:
            k, v = k[:-1], v[:-1]
        if self.fault == "swapped values" and length > 70:
            v = torch.cat([v[1:2], v[0:1], v[2:]])
        if self.fault == "scale":
            scale = inputs["q"].shape[2] ** -0.5
        q = inputs["q"][row].float().clone()  # the sums of torch depend on alignment
        return self.softmax(q, self.pair(k, heads), self.pair(v, heads), scale)

    def pair(self, kv: torch.Tensor, heads: int) -> torch.Tensor:
        group = heads // kv.shape[1]
        if self.fault == "wrong group":
            return kv.float().repeat(1, group, 1)
        return kv.float().repeat_interleave(group, dim=1)

    def softmax(self, q, k, v, scale):
        s = torch.einsum("hd,khd->hk", q, k) * scale * math.log2(math.e)
        top = s.amax(1, keepdim=True)
        p = torch.exp2(s - top)
        if self.fault == "rounded weights":
            p = p.half().float()
        total = p.sum(1, keepdim=True)
        if self.fault == "epsilon":
            total = total + 1e-4
        lse = (top + torch.log2(total))[:, 0] * math.log(2.0)
        return torch.einsum("hk,khd->hd", p, v) / total, lse


def refuse_bad_rows(inputs: Inputs) -> None:
    blocks, block_size = inputs["k_cache"].shape[0], inputs.case.variant.params["block_size"]
    for row, length in enumerate(inputs["seq_lens"].tolist()):
        used = inputs["block_table"][row][: -(-length // block_size)]
        if length < 0 or length > inputs["block_table"].shape[1] * block_size:
            raise KgenError(Diagnostic("K532", "length"))
        if bool(((used < 0) | (used >= blocks)).any()):
            raise KgenError(Diagnostic("K531", "block id"))


def outcomes(monkeypatch, made: Variant, run) -> list[str]:
    """What the harness finds in all cases of a variant when `run` stands in for its kernel."""
    monkeypatch.setattr(type(runner.ADAPTERS[made.op.name]), "run", lambda self, inputs: run(inputs))
    return [problem for case in runner.cases(made) for problem in runner.check(case).problems]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_right_attention_passes(monkeypatch, dtype):
    assert outcomes(monkeypatch, attention_variant(dtype), StandIn()) == []
    assert outcomes(monkeypatch, attention_variant(dtype, head_dim=256, layout="vllm"), StandIn()) == []


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    "fault",
    ["dropped token", "swapped values", "scale", "base 2", "tail", "finite minus infinity", "wrong group"],
)
def test_wrong_attention_is_found(monkeypatch, dtype, fault):
    assert outcomes(monkeypatch, attention_variant(dtype), StandIn(fault)) != []


@pytest.mark.parametrize("fault", ["rounded weights", "epsilon"])
def test_lost_precision_is_found(monkeypatch, fault):
    assert outcomes(monkeypatch, attention_variant("f32"), StandIn(fault)) != []


def test_stray_writes_are_found(monkeypatch):
    assert set(outcomes(monkeypatch, attention_variant(), StandIn("spill"))) == {
        "out: written outside of its own elements"
    }
    assert "q: an input was written" in outcomes(monkeypatch, attention_variant(), StandIn("input written"))


def test_results_that_depend_on_unused_memory_are_found(monkeypatch):
    def leaky(inputs: Inputs) -> None:
        StandIn()(inputs)
        inputs["out"][0, 0, 0] += 1e-7 * inputs["block_table"][0, -1].sign()

    found = outcomes(monkeypatch, attention_variant(), leaky)
    assert "out: bits change with unused memory or strides" in found


def test_a_fault_that_is_not_refused_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "refuse_bad_rows", lambda inputs: None)

    def careless(inputs: Inputs) -> None:
        inputs["block_table"].clamp_(0, inputs["k_cache"].shape[0] - 1)
        inputs["seq_lens"].clamp_(0, 16)
        StandIn()(inputs)

    assert "negative block id: not refused" in outcomes(monkeypatch, attention_variant(), careless)


def test_a_refusal_after_a_write_is_found(monkeypatch):
    def hasty(inputs: Inputs) -> None:
        inputs["out"].zero_()
        StandIn()(inputs)

    found = outcomes(monkeypatch, attention_variant(), hasty)
    assert found and all("was written before the error" in problem for problem in found)


def test_an_error_is_a_problem(monkeypatch):
    def refuse(inputs: Inputs) -> None:
        raise KgenError(Diagnostic("K520", "no such kernel"))

    found = outcomes(monkeypatch, attention_variant(), refuse)
    assert found and all("no such kernel" in problem for problem in found)


def merge(inputs: Inputs, *, base: float = 1.0, keep_empty: bool = False) -> None:
    lse = inputs["states_lse"].float() * base
    top = lse.amax(1, keepdim=True).nan_to_num(neginf=0.0)
    weights = torch.exp(lse - top)
    states = inputs["states"].float()
    if not keep_empty:
        states = states.masked_fill((lse == -torch.inf).unsqueeze(-1), 0.0)
    total = weights.sum(1)
    out = (weights.unsqueeze(-1) * states).sum(1) / total.unsqueeze(-1)
    inputs["out"].copy_(out.masked_fill((total == 0).unsqueeze(-1), 0.0))
    inputs["lse"].copy_(torch.log(total) + top[:, 0])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_merge_states(monkeypatch, dtype):
    made = variant("merge_states", dtype=dtype, head_dim=64)
    assert outcomes(monkeypatch, made, merge) == []
    assert outcomes(monkeypatch, made, lambda inputs: merge(inputs, base=1.01)) != []
    assert outcomes(monkeypatch, made, lambda inputs: merge(inputs, keep_empty=True)) != []


def store(inputs: Inputs) -> None:
    slots = inputs["slot_mapping"]
    count = inputs["k_cache"].shape[0] * inputs.case.variant.params["block_size"]
    if bool(((slots < -1) | (slots >= count)).any()):
        raise KgenError(Diagnostic("K533", "slot"))
    names = ("key", "value", "k_cache", "v_cache")
    new = reference.reshape_and_cache(*(inputs[name] for name in names), slots, layout_of(inputs.case))
    for name, cache in zip(names[2:], new, strict=True):
        inputs[name].copy_(cache)


def test_reshape_and_cache(monkeypatch):
    made = variant("reshape_and_cache", dtype="f16", head_dim=40, block_size=1, layout="vllm")
    assert outcomes(monkeypatch, made, store) == []
    zeroed = outcomes(monkeypatch, made, lambda inputs: inputs["k_cache"].zero_())
    assert any(problem.startswith("k_cache: first difference") for problem in zeroed)


@pytest.mark.parametrize("op", ["copy_blocks", "swap_blocks"])
def test_blocks(monkeypatch, op):
    source, destination = ("cache", "cache") if op == "copy_blocks" else ("source", "destination")

    def move(inputs: Inputs) -> None:
        pairs = inputs["block_mapping"]
        blocks = inputs[destination].shape[0]
        ends = pairs[:, 1].tolist()
        overlap = source == destination and bool(torch.isin(pairs[:, 0], pairs[:, 1]).any())
        if len(set(ends)) < len(ends) or overlap or bool(((pairs < 0) | (pairs >= blocks)).any()):
            raise KgenError(Diagnostic("K534", "pairs"))
        inputs[destination].copy_(reference.swap_blocks(inputs[source], inputs[destination], pairs))

    assert outcomes(monkeypatch, variant(op), move) == []
    assert outcomes(monkeypatch, variant(op), lambda inputs: None) != []
