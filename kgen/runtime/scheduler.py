"""The scheduler: which tokens are computed in each step, and in whose memory.

    scheduler.submit(request)
    while scheduler.has_work:
        plan = scheduler.schedule()             # frozen; memory is already arranged for it
        tokens = run the model on plan          # see plan.py for the order of copies and writes
        outcome = scheduler.commit({seq_id: [Branch(token)], ...})

A step mixes decode rows, which come first, with chunks of prefills. Only what a commit has confirmed as
written enters the cache: a prompt chunk by chunk, a sequence when it ends, forks or gives way. Requests may
be aborted between any two calls.
"""

from __future__ import annotations

import itertools
import time
from array import array
from collections.abc import Hashable, Mapping, Sequence

from kgen.runtime.blocks import BlockManager, Pair
from kgen.runtime.checks import check_after
from kgen.runtime.clock import Clock
from kgen.runtime.committing import Committer
from kgen.runtime.draft import Draft
from kgen.runtime.errors import fault
from kgen.runtime.job import Job, State
from kgen.runtime.job import Sequence as JobSequence
from kgen.runtime.jobs import Jobs
from kgen.runtime.keys import TOKEN_BYTES, Key
from kgen.runtime.phases import Phases
from kgen.runtime.plan import Branch, Outcome, StepPlan
from kgen.runtime.request import PREEMPTIONS, Request, SchedulerConfig
from kgen.runtime.tables import pages_for
from kgen.runtime.totals import Totals

_CHANGES = ("submit", "schedule", "commit", "discard", "abort", "retract")


class Scheduler:
    """Continuous batching over a block manager that nobody else allocates from while a step is under way.

    `clock` is read for the times in `Finished` and steers nothing. `check`: verify everything after every
    operation (None: as KGEN_CHECK says).
    """

    def __init__(
        self,
        manager: BlockManager,
        config: SchedulerConfig | None = None,
        *,
        clock: Clock = time.monotonic,
        check: bool | None = None,
    ) -> None:
        self.manager = manager
        self.config = config or SchedulerConfig()
        self.jobs = Jobs(manager, self.config)
        self._phases = Phases(manager, self.config, self.jobs)
        self.totals = Totals()
        self._clock = clock
        self._all: dict[Hashable, Job] = {}
        self._numbers = itertools.count()
        self._seq_ids = itertools.count()
        self._steps = itertools.count()
        self._plan: StepPlan | None = None
        self._parked: dict[Hashable, list[Pair]] = {}  # by retractions since the last step
        check_after(self, _CHANGES, check)

    def submit(self, request: Request) -> None:
        """Let a request wait for its turn. Raises K706 for an id in use, and for what could never run: more
        tokens than all pages hold, or more sequences than a step."""
        if request.request_id in self._all:
            raise fault("K706", f"request {request.request_id!r} is under way already")
        self._require_possible(request)
        prompt = array("i")
        prompt.frombytes(request.data)
        sequence = JobSequence(next(self._seq_ids), prompt, len(prompt))
        key = Key(request.data, request.namespace)
        job = Job(next(self._numbers), request, [sequence], key, self._clock())
        self._all[request.request_id] = job
        self.jobs.waiting.add(job)

    def schedule(self) -> StepPlan:
        """Plan the next step; empty when nothing can be done now. Raises K707 while one is not committed."""
        if self._plan is not None:
            raise fault("K707", f"step {self._plan.number} is not committed", "commit() it, or discard() it")
        draft = Draft(next(self._steps), self.config.max_batch_tokens, self._parked)
        self._parked = {}
        self._phases.run(draft, self._clock())
        plan = draft.plan()
        self.totals.count_plan(plan)
        self._plan = None if plan.is_empty else plan
        return plan

    def commit(self, results: Mapping[int, Sequence[Branch]]) -> Outcome:
        """Confirm that the step was run. `results`: for each of the plan's `sampled` sequences what it goes
        on with: one token, several for a fork into as many sequences, none to drop it.

        Sequences aborted since are left out or ignored. Raises K707 without a step, for a sequence that is
        missing or was not sampled, and for more sequences than the request's width; nothing is changed then.
        """
        plan = self._plan
        if plan is None:
            raise fault("K707", "there is no step to commit", hint="call schedule() first")
        committer = Committer(plan, self.jobs, self._all, self._seq_ids, self._clock())
        committer.validate(results)
        self._plan = None
        outcome = committer.run(results)
        self.totals.count_outcome(outcome)
        return outcome

    def discard(self) -> None:
        """Forget a step that failed; its requests are retracted, redone. Raises K707 without one."""
        plan = self._plan
        if plan is None:
            raise fault("K707", "there is no step to discard")
        self._plan = None
        jobs = self.jobs
        for name in dict.fromkeys((*plan.resumed, *(row.request_id for row in plan.rows))):
            if job := jobs.running.get(name):
                jobs.preempt(job, swap=False, keep=name not in plan.resumed)
        for name in plan.parked:
            if job := jobs.swapped.get(name):
                jobs.forget_swapped(job)

    def abort(self, request_id: Hashable) -> None:
        """End a request at once, whatever it is doing; rows of a step under way are ignored. Raises K706."""
        # What is on its way back from host memory is not there should the step be discarded.
        arriving = self._plan is not None and request_id in self._plan.resumed
        self.jobs.end(self._job(request_id), keep=not arriving)
        self._parked.pop(request_id, None)
        del self._all[request_id]
        self.totals.aborted += 1

    def retract(self, request_id: Hashable, preemption: str | None = None) -> None:
        """Make a running request give its memory up and wait again; any other is left as it is. Raises K706,
        and K707 while a step is under way."""
        job = self._job(request_id)
        if self._plan is not None:
            raise fault("K707", "a step is under way; commit it before retracting")
        how = preemption or self.config.preemption
        if how not in PREEMPTIONS:
            raise fault("K701", f"no preemption is named '{how}'", f"choices: {', '.join(PREEMPTIONS)}")
        if job.state is State.RUNNING:
            self._parked |= self.jobs.preempt(job, swap=how == "swap")
            self.totals.preemptions += 1

    @property
    def has_work(self) -> bool:
        """Whether any request has not ended."""
        return bool(self._all)

    @property
    def num_waiting(self) -> int:
        """Requests that have no memory now, swapped ones included."""
        return len(self.jobs.waiting) + len(self.jobs.swapped)

    @property
    def num_running(self) -> int:
        """Requests in memory."""
        return len(self.jobs.running)

    def check_integrity(self) -> None:
        """Derive every count again from the structures; raises K708 with all that disagrees."""
        from kgen.runtime.scheduler_integrity import check_scheduler

        check_scheduler(self, self._all, self._plan)

    def _job(self, request_id: Hashable) -> Job:
        job = self._all.get(request_id)
        if job is None:
            raise fault("K706", f"no request {request_id!r} is under way")
        return job

    def _require_possible(self, request: Request) -> None:
        """Refuse what could not run even alone, with every sequence as long as it may get."""
        size, pool = self.manager.block_size, self.manager.pool
        prompt = len(request.data) // TOKEN_BYTES
        shared = prompt // size
        each = pages_for(prompt + request.max_new_tokens, size) - shared
        need, most = shared + request.width * each, pool.num_pages - self.manager.watermark_pages
        if need > most:
            message = f"request {request.request_id!r} needs up to {need} pages and there are {most}"
            raise fault("K706", message, hint="lower max_new_tokens or width, or enlarge the pool")
        if request.width > self.config.max_sequences:
            message = f"request {request.request_id!r} wants {request.width} sequences at once"
            raise fault("K706", message, hint=f"max_sequences is {self.config.max_sequences}")
