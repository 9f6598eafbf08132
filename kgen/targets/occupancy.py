"""How many blocks of a kernel a compute unit holds at once, by the rules of its target's spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.arithmetic import INT_MAX
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import TargetSpec


@dataclass(frozen=True)
class Use:
    """What one block of a kernel takes. `registers` and `scalar_registers` are of a thread and of
    a wave; 0 where unknown, which then limits nothing."""

    threads: int
    registers: int = 0
    scalar_registers: int = 0
    lds_bytes: int = 0


@dataclass(frozen=True)
class Occupancy:
    """`blocks` a compute unit holds and `waves` they are, of `max_waves`; `limits` holds the blocks
    each resource allows, `limited_by` those that allow the fewest."""

    blocks: int
    waves: int
    max_waves: int
    limits: Mapping[str, int]

    @property
    def limited_by(self) -> tuple[str, ...]:
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    @property
    def share(self) -> float:
        """Waves held over waves that could be."""
        return self.waves / self.max_waves


def occupancy(target: TargetSpec, use: Use) -> Occupancy | None:
    """The occupancy of a kernel; None where the target's spec has no rules.

    Raises KgenError where a rule has no value.
    """
    chip = target.chip
    if chip is None or not chip.occupancy:
        return None
    block_waves = max(1, -(-use.threads // target.wave))
    names = {
        **chip.figures,
        "registers": use.registers,
        "scalar_registers": use.scalar_registers,
        "lds_bytes": use.lds_bytes,
        "block_waves": block_waves,
        "block_threads": use.threads,
    }
    limits = {rule.name: max(0, int(evaluate_expr(rule.blocks, names))) for rule in chip.occupancy}
    blocks = min(limits.values(), default=INT_MAX)
    return Occupancy(blocks, blocks * block_waves, chip.figures["simds"] * chip.figures["max_waves"], limits)
