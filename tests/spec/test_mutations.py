"""Specs with random damage are read or refused; nothing but diagnostics ever comes out."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.load import load_build, load_layouts, load_op, load_target
from tests.spec.spec_samples import CATALOG, catalog

PIECES = [
    *"{}[]:,'\"-+*/%<>=!.#&|@ \n0", "[]", "{}", "''", "-1", "0", "true", "1e999", "not", "if", "else", "in [",
    "- ",
    "head_dim", "target.", "layout.k_inner", "block_size", "dtype", "min(", ")", "a: 1", "**", "//", "9" * 30,
]  # fmt: skip
BUILD = (
    "build: b\nvariants:\n  - op: decode\n    axes: {arch: [native], dtype: [bf16], head_dim: [64],\n"
    "      block_size: [16], layout: [half, bshd], ordered: [true], scale: [0.5]}\n"
)


def damaged(text: str, chance: random.Random) -> str:
    """The text after one to four small accidents."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        lines = text.splitlines(keepends=True)
        line = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randint(1, 8) :]
            case 2:
                text = text[:at] + chance.choice(PIECES) + text[at + 1 :]
            case 3:
                text = "".join(lines[:line] + lines[line + 1 :]) or text
            case _:
                text = "".join(lines[:line] + [lines[line]] * 2 + lines[line + 1 :])
    return text


READERS: list[tuple[str, str, Callable[[Path], object]]] = [
    ("op", (CATALOG / "ops/decode.yaml").read_text(), lambda path: load_op(path, catalog().layouts)),
    ("target", (CATALOG / "targets/chip.yaml").read_text(), load_target),
    ("layouts", (CATALOG / "layouts.yaml").read_text(), load_layouts),
    ("build", BUILD, lambda path: load_build(path, catalog())),
]


@pytest.mark.parametrize(("kind", "text", "read"), READERS, ids=[kind for kind, _, _ in READERS])
def test_damage_gives_diagnostics_only(kind: str, text: str, read: Callable[[Path], object], tmp_path: Path):
    chance = random.Random(f"damage to {kind}")
    path = tmp_path / "spec.yaml"
    refused = 0
    for _ in range(60 if kind == "op" else 150):
        path.write_text(damaged(text, chance))
        try:
            read(path)
        except KgenError as error:
            refused += 1
            assert all(d.code.startswith(("K1", "K2")) for d in error.diagnostics)
            str(error)
    assert refused > 20
