"""The cases of extend_attention can fail: a plain stand-in passes, and every small fault is found."""

import dataclasses

import pytest
import torch

from kgen import reference
from kgen.diagnostics import Diagnostic, KgenError
from kgen.metadata import SEPARATE
from kgen.reference import Point
from kgen.spec.load import load_catalog
from kgen.testing import runner
from kgen.testing.attention import layout_of
from kgen.testing.case import Inputs
from kgen.testing.masks import mask_of, score_of
from kgen.testing.values import placed_args, variant_of
from kgen.variants.matrix import make_variant
from kgen.variants.model import Variant

CATALOG = load_catalog()


def extend_variant(mask="causal", dtype="f32") -> Variant:
    params = {"arch": "cpu_generic", "head_dim": 40, "block_size": 16, "layout": "bhsd_vt"}
    made = make_variant(CATALOG.ops["extend_attention"], {**params, "dtype": dtype, "variant": mask}, CATALOG)
    assert isinstance(made, Variant)
    return made


def refuse_faults(inputs: Inputs) -> None:
    rows, entries = inputs["qo_indptr"], inputs["kv_indptr"]
    total, count = inputs["q"].shape[0], inputs["kv_indices"].shape[0]
    falls = bool((rows.diff() < 0).any()) or bool((entries.diff() < 0).any())
    if falls or int(rows[-1]) > total or int(entries[-1]) > count:
        raise KgenError(Diagnostic("K537", "pointers"))
    size, separate = inputs.case.variant.params["block_size"], inputs.case.values["convention"] == SEPARATE
    held = inputs["seq_lens"].long() - (rows.diff() if separate else 0)
    if bool((held < 0).any()) or bool((held > entries.diff() * size).any()):
        raise KgenError(Diagnostic("K532", "length"))
    for seq, tokens in enumerate(held.tolist()):
        used = inputs["kv_indices"][int(entries[seq]) :][: -(-tokens // size)]
        if bool(((used < 0) | (used >= inputs["k_cache"].shape[0])).any()):
            raise KgenError(Diagnostic("K531", "page"))


@dataclasses.dataclass
class StandIn:
    """extend_attention by the plain formula, with one fault built in or none."""

    fault: str = ""

    def __call__(self, inputs: Inputs) -> None:
        refuse_faults(inputs)
        args = dict(placed_args(inputs))
        if self.fault == "window too wide":
            args["window"] += 1
        spec, scale = variant_of(inputs.case), float(inputs.scalars["softmax_scale"])
        mask, score = mask_of(spec, args), score_of(spec, args)
        new = {name: inputs[name] for name in ("k_new", "v_new") if name in inputs.placed}
        if self.fault == "keys of another row" and new:
            new = {name: tensor.roll(1, 0) for name, tensor in new.items()}
        out, lse = reference.extend_attention(
            inputs["q"],
            inputs["k_cache"],
            inputs["v_cache"],
            inputs["qo_indptr"],
            inputs["kv_indptr"],
            inputs["kv_indices"],
            inputs["seq_lens"],
            inputs["q"].shape[2] ** -0.5 if self.fault == "scale" else scale,
            layout_of(inputs.case),
            mask=None if mask is None else lambda at: mask(self.moved(at)),
            score=score,
            **new,
        )
        if self.fault == "finite minus infinity":
            lse = lse.nan_to_num(neginf=-1e30)
        if self.fault == "last row left out":
            out[-1:] = 0.0
        inputs["out"].copy_(out)
        inputs["lse"].copy_(lse)

    def moved(self, at: Point) -> Point:
        """What a faulty mask takes the positions for."""
        if self.fault == "mask not shifted":
            return dataclasses.replace(at, q=torch.arange(at.q.shape[1]).view(1, -1, 1))
        if self.fault == "diagonal hidden":
            return dataclasses.replace(at, q=at.q - 1)
        return at


def problems(monkeypatch, made: Variant, run) -> list[str]:
    monkeypatch.setattr(type(runner.ADAPTERS["extend_attention"]), "run", lambda self, inputs: run(inputs))
    return [problem for case in runner.cases(made) for problem in runner.check(case).problems]


@pytest.mark.parametrize("mask", sorted(CATALOG.ops["extend_attention"].variants))
def test_the_formula_passes(monkeypatch, mask):
    assert problems(monkeypatch, extend_variant(mask), StandIn()) == []


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    "fault",
    [
        *("scale", "mask not shifted", "diagonal hidden", "keys of another row"),
        *("finite minus infinity", "last row left out"),
    ],
)
def test_faults_are_found(monkeypatch, dtype, fault):
    assert problems(monkeypatch, extend_variant(dtype=dtype), StandIn(fault)) != []


def test_a_window_that_is_one_too_wide_is_found(monkeypatch):
    assert problems(monkeypatch, extend_variant("sliding"), StandIn("window too wide")) != []


def test_a_call_that_refuses_nothing_is_found(monkeypatch):
    found = problems(monkeypatch, extend_variant(), lambda inputs: None)
    refusals = {problem for problem in found if problem.endswith("not refused")}
    assert len(refusals) == 7
