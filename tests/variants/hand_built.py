"""Builds made in a test, without a file."""

from kgen.diagnostics import Source, Span
from kgen.spec.model import BuildAxis, BuildEntry, BuildSpec

NOWHERE = Span(Source("build.yaml", "build: b\n"), 1, 1, 1, 6)


def entry(op, **axes):
    """An entry of a build: axes by name."""
    made = [BuildAxis(n, tuple(vs), NOWHERE, (NOWHERE,) * len(vs)) for n, vs in axes.items()]
    return BuildEntry(op, tuple(made), NOWHERE)


def build_of(*entries, name="b"):
    return BuildSpec(name, "", NOWHERE, tuple(entries))
