"""The loops of a chip that no compiler here knows, as its stand-in's compiler lays them out.

A near chip's compiler writes assembly, in which the instructions that the stand-in lacks stand as text
(KGEN_STAND_IN); nothing is assembled. Registers, waits and order are the near chip's: what they
show is how the source was taken, not what the chip's own compiler makes of it.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from kgen import paths
from kgen.build import toolchains
from kgen.diagnostics import Diagnostic, KgenError
from kgen.inspect import parse
from kgen.inspect.code import Function
from kgen.render.emit import render
from kgen.variants.model import Variant

_FLAGS = ("-DKGEN_STAND_IN=1", "-S", "-fno-integrated-as")
_SECONDS = 300


def assembly(variant: Variant) -> tuple[Function, ...]:
    """The kernels of a variant for its target's stand-in.

    Raises KgenError: K416 where the target has none or its compiler refuses the source, K402, K403 where
    no compiler for it is found.
    """
    if not variant.target.stand_in:
        message = f"{variant.name}: {variant.target.name} has no stand-in"
        raise KgenError(Diagnostic("K416", message, hint="build it and leave --stand-in out"))
    near = replace(variant.target, flags=(*variant.target.stand_in, *_FLAGS), stand_in=())
    toolchain = toolchains.for_target(replace(near, flags=near.flags[:1]), simulated=False)
    toolchain = replace(toolchain, flags=(*toolchain.flags, *near.flags))
    with tempfile.TemporaryDirectory() as folder:
        source, written = Path(folder) / "kernel.hip", Path(folder) / "kernel.s"
        source.write_text(render(variant).text, encoding="utf-8")
        words = toolchain.command(str(source), str(written), str(paths.include_dir()))
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode != 0:
            message = f"{variant.name}: the compiler of {variant.target.name}'s stand-in refuses the source"
            raise KgenError(Diagnostic("K416", message, notes=tuple(done.stderr.splitlines()[:6])))
        return parse.amd_assembly(written.read_text(encoding="utf-8"))
