"""specs/targets/*.yaml: what a chip is."""

from __future__ import annotations

from kgen.diagnostics import Collector
from kgen.spec.model import TargetSpec
from kgen.spec.reader import Fields, plain
from kgen.spec.types import COMPILERS, FAMILIES
from kgen.syntax.yaml import Node

_REQUIRED = ("target", "doc", "family", "wave", "vector_bits", "requires", "flags", "compiler")
_OPTIONAL = ("lds_bytes", "registers", "extra")


def read_target(node: Node, found: Collector) -> TargetSpec:
    """The target of one file. `extra` travels as plain data for rooms that know its keys."""
    fields = Fields(node, "a target", found, required=_REQUIRED, optional=_OPTIONAL)
    extra = fields.node("extra")
    data = plain(extra) if extra is not None else None
    if data is not None and not isinstance(data, dict):
        found.add("K203", "'extra' is a mapping", fields.where("extra"))
        data = None
    vector_bits = fields.integer("vector_bits", 128, low=32)
    return TargetSpec(
        name=fields.name("target", "a target"),
        doc=fields.text("doc"),
        span=fields.where("target"),
        family=fields.choice("family", FAMILIES, "cpu"),
        wave=fields.integer("wave", 1, low=1) or 1,
        vector_bits=vector_bits or 128,
        compiler=fields.choice("compiler", COMPILERS, "cxx"),
        flags=fields.words("flags"),
        requires=fields.words("requires"),
        lds_bytes=fields.integer("lds_bytes", 0, low=0) or 0,
        registers=fields.integer("registers", 0, low=0) or 0,
        extra=data,
    )
