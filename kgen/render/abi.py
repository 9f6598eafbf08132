"""The argument block as C++: `struct Args`, one int64 member for each word."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from kgen.manifest import ABI_VERSION, HEADER, Word
from kgen.spec.model import OpSpec, VariantSpec
from kgen.variants.policy import argument_words

_WIDTH = 110


def args_struct(op: OpSpec, chosen: VariantSpec | None = None) -> str:
    """The text of `struct Args`, and the check that it has exactly the words of the block. Those of the
    chosen mask and score come last."""
    return _struct(argument_words(op, chosen), len(argument_words(op)))


@lru_cache(maxsize=64)
def _struct(words: tuple[Word, ...], tail: int) -> str:
    title = f"// The argument block, version {ABI_VERSION}: {len(words)} words. Strides count elements."
    lines = [title, "struct Args {", *_members(HEADER)]
    for argument, group in groupby(words[len(HEADER) : tail], key=lambda word: word.argument):
        members = list(group)
        if not argument:
            lines.append("  // Sizes, and what follows from them.")
        elif members[0].kind == "float":
            lines.append("  // The bits of a double.")
        lines += _members([word.name for word in members])
    if words[tail:]:
        lines += ["  // Of the variant.", *_members([word.name for word in words[tail:]])]
    lines += ["};", f"static_assert(sizeof(Args) == {len(words)} * sizeof(int64_t));"]
    return "\n".join(lines)


def _members(names: Sequence[str]) -> list[str]:
    """One declaration, wrapped."""
    text = f"int64_t {', '.join(names)};"
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")
