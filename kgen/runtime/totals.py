"""What a scheduler has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.runtime.plan import Outcome, StepPlan


@dataclass(slots=True)
class Totals:
    """Counts since the scheduler was made. `prefill_tokens` and `decode_tokens` are rows computed."""

    steps: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    new_tokens: int = 0
    copied_pages: int = 0
    swapped_pages: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0

    def count_plan(self, plan: StepPlan) -> None:
        """Add a step."""
        if plan.is_empty:
            return
        self.steps += 1
        self.decode_tokens += len(plan.decodes)
        self.prefill_tokens += plan.num_tokens - len(plan.decodes)
        self.copied_pages += len(plan.copies)
        self.swapped_pages += len(plan.swap_out) + len(plan.swap_in)
        self.preemptions += len(plan.preempted)

    def count_outcome(self, outcome: Outcome) -> None:
        """Add what a commit brought."""
        self.new_tokens += len(outcome.tokens)
        self.finished += len(outcome.finished)
