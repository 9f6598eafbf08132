"""The argument block of a call: what its words hold, but for pointers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from kgen.dispatch.errors import fault
from kgen.dispatch.intervals import Tracked
from kgen.dispatch.model import Bound, Names
from kgen.dispatch.scratch import Scratch
from kgen.dispatch.tracking import Tracker
from kgen.manifest import ABI_VERSION, Policy, Scalar, Word

Defaults = Mapping[str, Callable[[Names], float]]
"""Values of scalars that were left out, from the facts of the call."""
_HEADER_POINTERS = ("abi", "words", "error", "parallel", "thread_num", "num_threads")


def fill(
    policy: Policy, bound: Bound, facts: Names, tracker: Tracker, scratch: Scratch, defaults: Defaults
) -> list[Tracked]:
    """The words of the argument block; pointers, threads and error word are left 0. Words of scalars have no
    path: whoever calls writes them."""
    filler = _Filler(policy, bound, facts, tracker, scratch, defaults)
    words = [filler.word(word) for word in policy.words]
    words[_place(policy, "abi")] = Tracked(ABI_VERSION)
    words[_place(policy, "words")] = Tracked(len(words))
    return words


class _Filler:
    def __init__(
        self,
        policy: Policy,
        bound: Bound,
        facts: Names,
        tracker: Tracker,
        scratch: Scratch,
        defaults: Defaults,
    ) -> None:
        self.policy, self.bound, self.facts = policy, bound, facts
        self.tracker, self.scratch, self.defaults = tracker, scratch, defaults
        self.kinds: Mapping[str, Callable[[Word], Tracked]] = {
            "pointer": lambda _word: Tracked(0),
            "stride": self._stride,
            "int": lambda word: Tracked(int(self._scalar(word))),
            "float": lambda word: Tracked(float_bits(float(self._scalar(word)))),
            "fact": lambda word: self._fact(word.name),
        }

    def word(self, word: Word) -> Tracked:
        if word.name in _HEADER_POINTERS:
            return Tracked(0)
        if word.kind not in self.kinds:
            raise fault(
                "K530", f"{self.policy.op}: argument word {word.name} is of unknown kind '{word.kind}'"
            )
        return self.kinds[word.kind](word)

    def _stride(self, word: Word) -> Tracked:
        if word.argument in self.scratch.strides:
            return self.scratch.strides[word.argument][word.axis]
        by_axis = self.bound.strides.get(word.argument)
        return Tracked(0 if by_axis is None else by_axis[word.axis])

    def _scalar(self, word: Word) -> Scalar:
        name = word.argument or word.name
        value = self.bound.scalars.get(name)
        if value is None and name in self.defaults:
            value = self.defaults[name](self.facts)
        if value is None:
            raise fault("K510", f"{self.policy.op}: {name} is missing")
        return value

    def _fact(self, name: str) -> Tracked:
        if name not in self.facts:
            raise fault("K510", f"{self.policy.op}: nothing says what {name} is")
        found = self.tracker.named(name)
        return found if found.path else Tracked(int(found.value))


def float_bits(value: float) -> int:
    """The bits of a double as a signed 64-bit integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def _place(policy: Policy, name: str) -> int:
    return next(i for i, word in enumerate(policy.words) if word.name == name)


def places(policy: Policy, kind: str) -> Mapping[str, int]:
    """Argument -> place of its word of this kind (`pointer`, or `scalar` for int and float)."""
    kinds = ("int", "float") if kind == "scalar" else (kind,)
    return {
        word.argument or word.name: place
        for place, word in enumerate(policy.words)
        if word.kind in kinds and word.name not in _HEADER_POINTERS
    }
