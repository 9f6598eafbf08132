"""Files to typed specs: the model they give, the hash of an operator, and files that cannot be read."""

import shutil
from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.layout import TensorOrder
from kgen.paths import specs_dir
from kgen.spec.load import load_build, load_catalog, load_layouts, load_op, load_target
from kgen.syntax.ast import Float, Name, Str
from kgen.syntax.parser import parse_expr
from tests.spec.spec_samples import CATALOG, catalog


def test_the_shipped_specs_are_sound():
    shipped = load_catalog()
    assert {"paged_attention", "merge_states", "reshape_and_cache", "copy_blocks", "swap_blocks"} <= set(
        shipped.ops
    )
    assert {"cpu_generic", "cpu_avx2", "cpu_avx512", "cpu_avx512bf16"} <= set(shipped.targets)
    assert shipped.layouts["vllm"].k == TensorOrder(("block", "head", "dim", "token", "inner"), 0)
    assert shipped.layouts["dcu_layout2"].v is None
    for path in sorted((specs_dir() / "builds").glob("*.yaml")):
        assert load_build(path, shipped).entries


def test_an_operator():
    op = catalog().op("decode")
    assert [p.type for p in op.params] == [
        "target", "dtype", "dtype", "int", "int", "layout", "enum", "bool", "float", "variant",
    ]  # fmt: skip
    head_dim = op.param("head_dim")
    assert (head_dim.minimum, head_dim.maximum, head_dim.values, head_dim.tag) == (8, 512, (), "d{}")
    assert op.param("kv_dtype").default == Name("dtype")
    assert op.param("mode").default == Str("fast")
    assert op.param("scale").default == Float(1.0)
    assert op.param("block_size").values == (1, 16, 32)
    assert [let.name for let in op.lets] == ["line", "vector", "waves"]
    assert [fact.name for fact in op.facts] == ["group", "passes"]
    assert [rule.because for rule in op.requires] == [
        "rows are read 8 elements at a time",
        "the order must be known",
    ]
    assert op.requires[0].check == parse_expr("head_dim % 8 == 0")
    assert op.templates == {"cpu": "cpu/paged_attention.cpp.j2"}


def test_arguments():
    arguments = {a.name: a for a in catalog().op("decode").arguments}
    assert [(a.kind, a.dtype, a.cache, a.access) for a in arguments.values()] == [
        ("tensor", "dtype", "", "write"), ("tensor", "dtype", "", "read"), ("cache", "kv_dtype", "k", "read"),
        ("cache", "kv_dtype", "v", "read"), ("float", "", "", "read"), ("int", "", "", "read"),
        ("tensor", "f32", "", "read"),
    ]  # fmt: skip
    assert [axis.name for axis in arguments["q"].axes] == ["seq", "head", "dim"]
    assert arguments["parts"].axes[1].size == parse_expr("max(max_len, 1)")
    assert arguments["parts"].workspace == Name("ordered")


def test_variants_are_checked_though_only_one_is_generated_yet():
    variants = catalog().op("decode").variants
    assert list(variants) == ["causal", "sliding", "softcap", "alibi"]
    assert {name: str(kind) for name, kind in variants["sliding"].args.items()} == {"window": "int"}
    assert {name: str(kind) for name, kind in variants["alibi"].args.items()} == {"slope": "float[head]"}
    assert variants["alibi"].score == parse_expr("s + slope[head] * (kv - q)")
    assert variants["causal"].score is None


def test_selection_grids_and_tests():
    op = catalog().op("decode")
    block, ordered = op.select
    assert (block.param, block.pick, block.want, block.policies) == (
        "block_size",
        "nearest",
        Name("group"),
        None,
    )
    assert (ordered.default, ordered.env) == ("never", "KGEN_ORDERED")
    assert ordered.policies is not None and ordered.want == ordered.policies["never"] == parse_expr("false")
    assert list(op.grids) == ["gpu", "gpu_merge"]
    assert op.grids["gpu"].block == parse_expr("target.wave * 4")
    assert op.grids["gpu_merge"].when == Name("ordered")
    ragged, second = op.tests
    assert ragged.values == {"seq_lens": (1, 0, parse_expr("block_size + 1")), "scale": 0.5, "strict": True}
    assert (second.name, second.when) == ("ordered", Name("ordered"))


def test_a_chip():
    target = catalog().target("chip90")
    assert (target.family, target.wave, target.lds_bytes, target.flags) == (
        "nvidia",
        32,
        65536,
        ("-arch=sm_90",),
    )
    chip = target.chip
    assert chip is not None
    assert (chip.figures["simds"], chip.figures["lds_bank_bytes"], chip.figures["scalar_file"]) == (4, 4, 0)
    assert (chip.load_bytes, chip.descriptor_word3) == ((4, 16), None)
    numbers = target.numbers
    assert (numbers.bf16_rounding, numbers.fp8, numbers.fp8_conversion) == ("nearest_even", "ocp", "software")
    (rule,) = chip.occupancy
    assert (rule.name, rule.blocks) == ("waves", parse_expr("simds * max_waves // block_waves"))
    mma = chip.instructions["mma"]
    assert (mma.dtype, mma.m, mma.n, mma.k) == ("f16", 16, 8, 4)
    assert mma.operands["a"].row == parse_expr("lane // 4 + 8 * e")
    assert str(mma.operands["a"].row.span) == "catalog/targets/chip.yaml:29:14"
    assert (mma.operands["d"].elements, mma.tail, mma.asm) == (4, ("0",), "mma")


def test_a_target_like_another(tmp_path: Path):
    (tmp_path / "chip.yaml").write_text((CATALOG / "targets" / "chip.yaml").read_text())
    (tmp_path / "small.yaml").write_text(
        "target: small\ndoc: A smaller one.\nlike: chip90\nflags: [-arch=sm_91]\n"
        "chip: {vector_file: 256}\nmatrix: {mma: {asm: mma.b}}\n"
    )
    small, base = (load_target(tmp_path / f"{name}.yaml") for name in ("small", "chip"))
    assert (small.flags, small.wave, small.lds_bytes) == (("-arch=sm_91",), 32, 65536)
    assert small.chip is not None and base.chip is not None
    assert small.chip.figures == {**base.chip.figures, "vector_file": 256}
    assert small.chip.instructions["mma"].asm == "mma.b"
    assert small.chip.instructions["mma"].operands == base.chip.instructions["mma"].operands
    assert str(small.chip.instructions["mma"].operands["a"].span) == f"{tmp_path / 'chip.yaml'}:29:8"


def test_a_fault_that_targets_inherit_is_told_once_where_it_stands(tmp_path: Path):
    folder = tmp_path / "specs" / "targets"
    folder.mkdir(parents=True)
    text = (CATALOG / "targets" / "chip.yaml").read_text()
    (folder / "chip.yaml").write_text(text.replace("simds: 4", "simds: four"))
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(f"target: {name}\ndoc: d\nlike: chip90\n")
    with pytest.raises(KgenError) as caught:
        load_catalog(tmp_path / "specs")
    assert [d.code for d in caught.value.diagnostics if "chip.yaml" in str(d.span)] == ["K203"]


@pytest.mark.parametrize(
    ("parents", "fault"),
    [
        ({"a": "b", "b": "a"}, "K212: the target 'b' is like itself: a -> b -> a"),
        ({"a": "a"}, "K212: the target 'a' is like itself: a -> a"),
        ({"a": "ship90"}, "K205: unknown target 'ship90'"),
    ],
)
def test_parents_that_cannot_be(tmp_path: Path, parents: dict[str, str], fault: str):
    for name, parent in {**parents}.items():
        (tmp_path / f"{name}.yaml").write_text(f"target: {name}\ndoc: d\nlike: {parent}\n")
    with pytest.raises(KgenError) as caught:
        load_target(tmp_path / "a.yaml")
    (diagnostic,) = caught.value.diagnostics
    assert f"{diagnostic.code}: {diagnostic.message}" == fault


def test_a_build(tmp_path: Path):
    path = tmp_path / "b.yaml"
    path.write_text(
        "build: b\ndoc: d\nvariants:\n"
        "  - op: decode\n    axes: {arch: [native, 'sim:chip90'], dtype: [bf16], head_dim: [64, 128],\n"
        "           block_size: [16], layout: [half], ordered: [true, false], scale: [0.5, 2]}\n"
    )
    (entry,) = load_build(path, catalog()).entries
    assert {axis.name: axis.values for axis in entry.axes} == {
        "arch": ("native", "sim:chip90"), "dtype": ("bf16",), "head_dim": (64, 128), "block_size": (16,),
        "layout": ("half",), "ordered": (True, False), "scale": (0.5, 2.0),
    }  # fmt: skip
    head_dim = next(axis for axis in entry.axes if axis.name == "head_dim")
    assert [span.col for span in head_dim.value_spans] == [68, 72]


def test_spans_name_files_from_the_specs_folder_on(tmp_path: Path):
    for folder in (tmp_path / "one" / "specs", tmp_path / "two" / "specs"):
        shutil.copytree(CATALOG, folder)
        op = load_catalog(folder).op("decode")
        assert str(op.requires[0].check.span) == "specs/ops/decode.yaml:31:12"


def test_the_hash_is_of_the_bytes_alone(tmp_path: Path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(CATALOG, copy)
    mine = catalog().op("decode").spec_hash
    assert load_catalog(copy).op("decode").spec_hash == mine
    assert load_op(copy / "ops" / "decode.yaml", catalog().layouts).spec_hash == mine
    (copy / "targets" / "chip.yaml").write_text((copy / "targets" / "chip.yaml").read_text() + "# more\n")
    assert load_catalog(copy).op("decode").spec_hash == mine
    for name in ("layouts.yaml", "ops/decode.yaml"):
        original = (copy / name).read_text()
        (copy / name).write_text(original + "# more\n")
        assert load_catalog(copy).op("decode").spec_hash != mine
        (copy / name).write_text(original)
    assert load_catalog(copy).op("decode").spec_hash == mine


def test_look_ups_that_fail_offer_the_nearest():
    with pytest.raises(KgenError, match=r"unknown operator 'decod'[\s\S]*did you mean 'decode'"):
        catalog().op("decod")
    with pytest.raises(KgenError, match=r"unknown layout 'bsdh'[\s\S]*did you mean 'bshd'"):
        catalog().layout("bsdh")
    with pytest.raises(KgenError, match=r"unknown target 'chip9'[\s\S]*did you mean 'chip90'"):
        catalog().target("chip9")


def test_faults_of_all_files_are_told_together(tmp_path: Path):
    copy = tmp_path / "specs"
    shutil.copytree(CATALOG, copy)
    (copy / "layouts.yaml").write_text("layouts: {bshd: {k: [block], v: [block, token, head, dim]}}\n")
    (copy / "targets" / "chip.yaml").write_text("target: chip\n")
    text = (copy / "ops" / "decode.yaml").read_text()
    (copy / "ops" / "decode.yaml").write_text(text.replace("head_dim % 8", "head_dmi % 8"))
    (copy / "ops" / "second.yaml").write_text(text)
    (copy / "ops" / "third.yaml").write_bytes(b"op: \xff\n")
    with pytest.raises(KgenError) as caught:
        load_catalog(copy)
    places = [str(d.span).rsplit(":", 2)[0] for d in caught.value.diagnostics if d.span]
    assert set(places) == {
        "specs/layouts.yaml", "specs/targets/chip.yaml", "specs/ops/decode.yaml", "specs/ops/second.yaml",
    }  # fmt: skip
    messages = [d.message for d in caught.value.diagnostics]
    assert "the operator 'decode' is defined twice" in messages
    assert "specs/ops/third.yaml is not UTF-8 text: byte 4 is 0xff" in messages


@pytest.mark.parametrize("read", [load_target, load_layouts, lambda path: load_op(path, {})])
def test_files_that_cannot_be_read(read: object, tmp_path: Path):
    (tmp_path / "host.yaml").write_text("a: 1\n")
    (tmp_path / "large.yaml").write_text(" " * (2 << 20))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(KgenError, match=r"K105[\s\S]*did you mean 'host.yaml'"):
        read(tmp_path / "hots.yaml")  # type: ignore[operator]
    with pytest.raises(KgenError, match="K104"):
        read(tmp_path / "large.yaml")  # type: ignore[operator]
    with pytest.raises(KgenError, match="K105"):
        read(tmp_path / "folder.yaml")  # type: ignore[operator]
    with pytest.raises(KgenError, match="K105"):
        read(tmp_path / "no" / "folder" / "x.yaml")  # type: ignore[operator]


def test_an_empty_folder_has_no_layouts(tmp_path: Path):
    with pytest.raises(KgenError, match=r"K105.*there is no file .*layouts.yaml"):
        load_catalog(tmp_path)
