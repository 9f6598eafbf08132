"""Checking that sources compile, where a whole compile is not wanted or no compiler knows the chip.

The front end of a compiler runs, types, templates and the use of the chip's builtins are checked,
and no kernel is made. A target that no compiler here knows is checked for its `stand_in`, a chip near
it that clang knows: then KGEN_SYNTAX_ONLY is defined, and sources put something opaque in place of
the instructions that the stand-in lacks.
"""

from __future__ import annotations

from dataclasses import replace

from kgen.build import toolchains
from kgen.build.toolchains import Toolchain
from kgen.diagnostics import KgenError
from kgen.spec.model import TargetSpec

KIND = "syntax"
"""Entry.kind of what a check leaves behind: nothing that can be launched."""

STAND_IN = "-DKGEN_SYNTAX_ONLY=1"


def for_syntax(target: TargetSpec, simulated: bool) -> Toolchain:
    """The toolchain that checks a variant's source. Raises KgenError (K402, K403) where neither
    the target nor its stand-in has a compiler."""
    try:
        whole = toolchains.for_target(target, simulated)
    except KgenError:
        if not target.stand_in or simulated:
            raise
        near = replace(target, flags=(*target.stand_in, STAND_IN), stand_in=())
        whole = toolchains.for_target(near, simulated)
    return replace(whole, kind=KIND, flags=_front_end(whole), artefact=_ARTEFACTS[whole.name])


_ARTEFACTS = {"hip": "kernel.bc", "nvcc": "kernel.ptx", "cxx": "kernel.s", "sim": "kernel.s"}
_DROPPED = {"-O1", "-O3", "-shared", "-cubin", "-Xptxas", "-v"}


def _front_end(whole: Toolchain) -> tuple[str, ...]:
    kept = tuple(flag for flag in whole.flags if flag not in _DROPPED and not flag.startswith("-Wl,"))
    more = {"hip": ("-O0", "-c", "-emit-llvm"), "nvcc": ("-ptx",)}.get(whole.name, ("-O0", "-S"))
    return (*kept, *more)
