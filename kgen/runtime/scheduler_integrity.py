"""Whether jobs, sequences and tables of a scheduler agree."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING

from kgen.runtime.errors import broken
from kgen.runtime.job import Job, State
from kgen.runtime.plan import StepPlan

if TYPE_CHECKING:
    from kgen.runtime.scheduler import Scheduler


def check_scheduler(scheduler: Scheduler, jobs: Mapping[Hashable, Job], plan: StepPlan | None) -> None:
    """Everything below the scheduler, then its own state; raises K708."""
    scheduler.manager.check_integrity()
    if found := list(_findings(scheduler, jobs, plan)):
        raise broken(found)


def _findings(scheduler: Scheduler, jobs: Mapping[Hashable, Job], plan: StepPlan | None) -> Iterator[str]:
    lists, manager = scheduler.jobs, scheduler.manager
    by_state = {
        State.WAITING: list(lists.waiting),
        State.RUNNING: list(lists.running.values()),
        State.SWAPPED: list(lists.swapped.values()),
    }
    listed = [job for group in by_state.values() for job in group]
    if sorted(map(id, listed)) != sorted(map(id, jobs.values())):
        yield "the lists of jobs are not all jobs, once each"
    for state, group in by_state.items():
        for job in group:
            name = job.request.request_id
            if job.state is not state:
                yield f"request {name!r} is {job.state.value} and listed as {state.value}"
            yield from (f"request {name!r}: {text}" for text in _job_findings(scheduler, job, plan))
    resident = {each.seq_id for job in listed for each in job.sequences if each.resident}
    if resident != set(manager.tables):
        yield f"tables {sorted(map(str, resident ^ set(manager.tables)))} have no sequence, or none a table"
    away = {each.seq_id for job in by_state[State.SWAPPED] for each in job.sequences}
    if away != set(manager.swap.tables):
        yield "the swapped tables are not those of the swapped jobs"
    if plan is not None and lists.num_sequences() > scheduler.config.max_sequences:
        yield f"{lists.num_sequences()} sequences run at once"
    for job in by_state[State.WAITING]:
        if job.bypassed > scheduler.config.max_bypass:
            yield f"request {job.request.request_id!r} was bypassed {job.bypassed} times"


def _job_findings(scheduler: Scheduler, job: Job, plan: StepPlan | None) -> Iterator[str]:
    rows = {row.seq_id for row in plan.decodes} if plan is not None else set()
    for sequence in job.sequences:
        if sequence.resident != (sequence.seq_id in scheduler.manager.tables):
            yield f"sequence {sequence.seq_id} does not know whether it is in memory"
        elif sequence.resident:
            slots = scheduler.manager.table(sequence.seq_id).length
            if slots != max(sequence.goal, sequence.written) + (sequence.seq_id in rows):
                yield f"sequence {sequence.seq_id} has {slots} slots for {sequence.written} written tokens"
        if job.state is not State.RUNNING and sequence.resident:
            yield f"sequence {sequence.seq_id} of a {job.state.value} job is in memory"
        if job.started and len(sequence.tokens) - 1 < sequence.written:
            yield f"sequence {sequence.seq_id} has KV for more than its tokens"
