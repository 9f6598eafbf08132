"""Disassembled code as data, whatever the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """One instruction. `text` is mnemonic and operands. `target` is where it may jump inside its
    function, None where it does not; `falls` whether what follows it may run next."""

    address: int
    text: str
    target: int | None = None
    falls: bool = True

    @property
    def mnemonic(self) -> str:
        return self.text.split(None, 1)[0]


@dataclass(frozen=True)
class Function:
    """A function or kernel, instructions in the order of their addresses."""

    name: str
    instructions: tuple[Instruction, ...]
