"""How Python calls each operator: which arguments, in which order. The one list of them.

What the arguments mean, and all checks, come from the operator's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.dispatch.block import Defaults
from kgen.manifest import VariantRule


@dataclass(frozen=True)
class Operator:
    """The positional form of an operator: (*tensors, *scalars, *keywords).

    `writes` and `optional` name tensors. `scalars` and `keywords` map a name to `int`, `float` or
    `str`; a keyword is a parameter, or `policy`. `together` are given all or none. `bytes` are tensors of
    pages passed as bytes.
    """

    name: str
    tensors: tuple[str, ...]
    writes: frozenset[str]
    scalars: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    together: frozenset[str] = frozenset()
    bytes: frozenset[str] = frozenset()
    defaults: Defaults = field(default_factory=dict)
    rule: VariantRule | None = None  # whose arguments end the tensors and scalars

    @property
    def has_variants(self) -> bool:
        """Whether calls may choose a mask and score."""
        return "variant" in self.keywords


PAGED_ATTENTION = Operator(
    name="paged_attention",
    tensors=("out", "lse", "q", "k_cache", "v_cache", "block_table", "seq_lens", "k_scale", "v_scale"),
    writes=frozenset({"out", "lse"}),
    scalars={"softmax_scale": "float", "max_seq_len": "int"},
    keywords={
        "layout": "str",
        "partition_size": "int",
        "reuse_kv_times": "int",
        "policy": "str",
        "variant": "str",
        "arch": "str",
    },
    optional=frozenset({"lse", "k_scale", "v_scale"}),
    defaults={"softmax_scale": lambda facts: float(facts["head_dim"]) ** -0.5},
)

EXTEND_ATTENTION = Operator(
    name="extend_attention",
    tensors=(
        *("out", "lse", "q", "k_cache", "v_cache", "k_new", "v_new"),
        *("qo_indptr", "kv_indptr", "kv_indices", "seq_lens", "k_scale", "v_scale"),
    ),
    writes=frozenset({"out", "lse"}),
    scalars={"softmax_scale": "float", "max_extend_len": "int", "max_seq_len": "int"},
    keywords={"block_size": "int", "layout": "str", "variant": "str", "arch": "str"},
    optional=frozenset({"lse", "k_new", "v_new", "k_scale", "v_scale"}),
    together=frozenset({"k_new", "v_new"}),
    defaults={"softmax_scale": lambda facts: float(facts["head_dim"]) ** -0.5},
)

MERGE_STATES = Operator(
    name="merge_states",
    tensors=("out", "lse", "states", "states_lse"),
    writes=frozenset({"out", "lse"}),
    keywords={"arch": "str"},
    optional=frozenset({"lse"}),
)

RESHAPE_AND_CACHE = Operator(
    name="reshape_and_cache",
    tensors=("key", "value", "k_cache", "v_cache", "slot_mapping", "k_scale", "v_scale"),
    writes=frozenset({"k_cache", "v_cache"}),
    optional=frozenset({"k_scale", "v_scale"}),
    keywords={"layout": "str", "arch": "str"},
)

COPY_BLOCKS = Operator(
    name="copy_blocks",
    tensors=("cache", "block_mapping"),
    writes=frozenset({"cache"}),
    keywords={"arch": "str"},
    bytes=frozenset({"cache"}),
)

SWAP_BLOCKS = Operator(
    name="swap_blocks",
    tensors=("source", "destination", "block_mapping"),
    writes=frozenset({"destination"}),
    keywords={"arch": "str"},
    bytes=frozenset({"source", "destination"}),
)

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        PAGED_ATTENTION,
        EXTEND_ATTENTION,
        MERGE_STATES,
        RESHAPE_AND_CACHE,
        COPY_BLOCKS,
        SWAP_BLOCKS,
    )
}
