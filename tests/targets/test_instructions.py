"""The instructions of every shipped target: bijections, what compilers say of them, and faulty maps."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kgen.cli import main
from kgen.diagnostics import Collector, KgenError
from kgen.spec.load import load_catalog, load_target
from kgen.targets.instructions import check_instructions, instruction, instructions

TARGETS = {name: target for name, target in load_catalog().targets.items() if target.family != "cpu"}
EVERY = [(target, one) for target in TARGETS.values() for one in instructions(target).values()]
IDS = [f"{target.name}-{one.name}" for target, one in EVERY]
CHIP = (Path(__file__).parents[1] / "spec" / "catalog" / "targets" / "chip.yaml").read_text()


def test_the_chips_that_must_be_there():
    assert {"gfx928", "gfx936", "gfx938", "gfx90a", "gfx942", "sm_80", "sm_90"} <= set(TARGETS)
    for target in TARGETS.values():
        dtypes = {one.dtype for one in instructions(target).values()}
        assert {"f16", "bf16"} <= dtypes
    with_fp8 = {t.name for t, one in EVERY if one.dtype == "fp8"}
    assert with_fp8 == {"gfx938", "gfx942", "sm_90"}
    for target in TARGETS.values():
        assert target.chip is not None
        assert (target.numbers.fp8_conversion == "hardware") == (target.name in with_fp8)


@pytest.mark.parametrize(("target", "one"), EVERY, ids=IDS)
def test_every_map_is_a_bijection(target, one):
    for operand in (one.a, one.b, one.d):
        held = [cell for lane in operand.cells for cell in lane]
        assert len(held) == len(set(held)) == operand.rows * operand.cols
        assert set(held) == {(r, c) for r in range(operand.rows) for c in range(operand.cols)}
    assert (one.a.rows, one.a.cols, one.b.cols) == (one.m, one.k, one.n)
    assert one.wave == target.wave


def test_maps_as_their_makers_give_them():
    mmac = instruction(TARGETS["gfx936"], "mmac_f32_16x16x16_f16")
    assert mmac.d.cells[17] == ((1, 1), (1, 5), (1, 9), (1, 13))
    mfma = instruction(TARGETS["gfx942"], "mfma_f32_16x16x16_f16")
    assert mfma.d.cells[17] == ((4, 1), (5, 1), (6, 1), (7, 1))
    mma = instruction(TARGETS["sm_90"], "mma_m16n8k16_bf16")
    assert mma.d.cells[17] == ((4, 2), (4, 3), (12, 2), (12, 3))
    assert mma.a.cells[17] == ((4, 2), (4, 3), (12, 2), (12, 3), (4, 10), (4, 11), (12, 10), (12, 11))


def test_a_family_shares_what_it_does_not_say():
    one, other = (instruction(TARGETS[name], "mmac_f32_16x16x16_bf16") for name in ("gfx928", "gfx938"))
    assert one == other
    assert "lit" not in "".join(instructions(TARGETS["gfx936"]))


def test_no_dcu_has_an_mfma():
    for target, one in EVERY:
        words = " ".join((one.name, one.asm, *one.builtins))
        assert ("mfma" in words) == (target.family == "amd")


def edited(tmp_path, *changes):
    text = CHIP
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "chip.yaml").write_text(text)
    return load_target(tmp_path / "chip.yaml")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "a: {row: lane // 4 + 8 * e",
            "a: {row: lane // 4 + 9 * e",
            "(row, k) (16, 0), (16, 1), (16, 2), (16, 3) lie outside 16 x 4",
        ),
        (
            "b: {k: lane % 4, col: lane // 4}",
            "b: {k: lane % 4, col: lane // 8}",
            "(k, col) (0, 4), (0, 5), (0, 6), (0, 7) and 12 more are held by no lane",
        ),
        (
            "d: {row: lane // 4 + 8 * (e // 2)",
            "d: {row: lane // 4 + 8 * (e // 3)",
            "(row, col) (0, 0), (0, 2), (0, 4), (0, 6) and 28 more are held more than once",
        ),
    ],
)
def test_a_map_that_is_no_bijection_names_the_cells(tmp_path, old, new, fault):
    found = Collector()
    check_instructions({"chip90": edited(tmp_path, (old, new))}, found)
    faults = {d.message: d for d in found.diagnostics}
    message = f"the map of operand '{new[0]}' of mma is no bijection: {fault}"
    assert message in faults
    diagnostic = faults[message]
    assert diagnostic.code == "K219"
    assert diagnostic.span is not None and diagnostic.span.source.line(
        diagnostic.span.line
    ).strip().startswith(new)


def test_a_map_without_a_value_points_into_its_expression(tmp_path):
    target = edited(tmp_path, ("k: lane % 4}", "k: lane % (e - e)}"))
    with pytest.raises(KgenError) as caught:
        instructions(target)
    assert [(d.code, d.span.line) for d in caught.value.diagnostics if d.span] == [("K209", 29)]


def test_an_unknown_instruction_names_the_nearest():
    with pytest.raises(
        KgenError, match=r"gfx936 has no matrix instruction 'mmac_f32_16x16x16'.*\n.*did you mean"
    ):
        instruction(TARGETS["gfx936"], "mmac_f32_16x16x16")


C_TYPES = {"f16": ("_Float16", 4), "bf16": ("short", 4), "fp8": ("long", 1)}


@pytest.mark.parametrize("name", ["gfx90a", "gfx942"])
def test_the_compiler_knows_every_mfma(name, tmp_path):
    """Each builtin compiles for its chip and becomes the mnemonic the spec gives."""
    clang, objdump = shutil.which("clang++-19"), shutil.which("llvm-objdump-19")
    if not clang or not objdump:
        pytest.skip("clang 19 is not installed")
    text = "typedef float sums4 __attribute__((ext_vector_type(4)));\n"
    text += "typedef float sums16 __attribute__((ext_vector_type(16)));\n"
    for one in instructions(TARGETS[name]).values():
        ctype, count = C_TYPES[one.dtype]
        assert one.a.elements == one.b.elements == (8 if one.dtype == "fp8" else count)
        operand = ctype if count == 1 else f"{one.name}_t"
        if count > 1:
            text += f"typedef {ctype} {operand} __attribute__((ext_vector_type({count})));\n"
        call = ", ".join((f"{one.builtins[0]}(a[0], b[0], c[0]", *one.tail))
        text += f'extern "C" __attribute__((global)) void {one.name}({operand}* a, {operand}* b, '
        text += f"sums{one.d.elements}* c) {{ c[0] = {call}); }}\n"
    (tmp_path / "k.hip").write_text(text)
    words = "--offload-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -fuse-cuid=none -O1 -x hip"
    code = tmp_path / "k.co"
    command = [clang, *words.split(), *TARGETS[name].flags, str(tmp_path / "k.hip"), "-o", str(code)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [objdump, "-d", f"--mcpu={name}", str(code)], check=True, capture_output=True, text=True
    )
    for one in instructions(TARGETS[name]).values():
        assert f"\t{one.asm} " in done.stdout


def test_the_check_command_reads_lane_maps(tmp_path, capsys):
    edited(tmp_path, ("col: lane // 4}", "col: lane // 5}"))
    assert main(["check", str(tmp_path / "chip.yaml")]) == 1
    err = capsys.readouterr().err
    assert f"{tmp_path / 'chip.yaml'}:30:8: error[K219]: the map of operand 'b' of mma is no bijection" in err
    edited(tmp_path)
    assert main(["check", str(tmp_path / "chip.yaml")]) == 0
    assert capsys.readouterr().out == f"ok  {tmp_path / 'chip.yaml'}: target chip90\n"
