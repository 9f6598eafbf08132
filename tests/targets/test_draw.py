"""`kgen explain lanes`: every cell of a drawn map is where the map says."""

import json

import pytest

from kgen.cli import main
from kgen.spec.load import load_catalog
from kgen.targets.draw import draw, holders
from kgen.targets.instructions import instruction
from kgen.targets.matrix import Fragment


def test_a_small_map():
    two = Fragment(2, 3, (((0, 0), (1, 2)), ((0, 1), (1, 1)), ((0, 2), (1, 0))))
    assert draw(two) == "  |   0   1   2\n--+------------\n0 | 0.0 1.0 2.0\n1 | 2.1 1.1 0.1"


def test_every_cell_is_shown_once():
    one = instruction(load_catalog().targets["gfx942"], "mfma_f32_32x32x8_f16")
    shown = holders(one.d)
    assert len(shown) == 1024 and shown[9, 33 % 32] == "1.5"
    rows = draw(one.d).splitlines()[2:]
    assert [cell for row in rows for cell in row.split("|")[1].split()] == [
        shown[row, col] for row in range(32) for col in range(32)
    ]


def test_the_command(capsys):
    assert main(["explain", "lanes", "gfx936"]) == 0
    assert capsys.readouterr().out.split() == ["mmac_f32_16x16x16_f16", "mmac_f32_16x16x16_bf16"]
    assert main(["explain", "lanes", "sim:gfx936", "mmac_f32_16x16x16_f16"]) == 0
    out = capsys.readouterr().out
    assert "D: row down, col across; 4 elements a lane" in out
    assert " 1 |  1.0 17.0 33.0 49.0  1.1 17.1" in out
    assert "summed tokens: 0 4 8 12 1 5 9 13" in out
    assert main(["explain", "lanes", "sm_80", "mma_m16n8k16_f16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dtype"] == "f16" and found["d"][17] == [[4, 2], [4, 3], [12, 2], [12, 3]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gfx937"], "unknown target 'gfx937'"),
        (["gfx936", "mfma"], "gfx936 has no matrix instruction 'mfma'"),
        (["cpu_avx2", "mfma"], "cpu_avx2 has no matrix instructions"),
    ],
)
def test_what_is_not_there(words, said, capsys):
    assert main(["explain", "lanes", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_target_without_instructions_says_so(capsys):
    assert main(["explain", "lanes", "cpu_avx2"]) == 0
    assert capsys.readouterr().out == "cpu_avx2 has no matrix instructions\n"
