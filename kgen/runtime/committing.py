"""Confirming a step: what was written enters the cache, sequences grow, fork and end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from kgen.runtime.errors import fault
from kgen.runtime.job import Job, State
from kgen.runtime.job import Sequence as JobSequence
from kgen.runtime.jobs import Jobs
from kgen.runtime.plan import Branch, Finished, NewToken, Outcome, Output, StepPlan

Results = Mapping[int, Sequence[Branch]]

LENGTH = "length"
"""Why a sequence ends that has all the tokens it asked for."""


class Committer:
    """The commit of one step. `seq_ids` gives ids for forks; `now` is when it happens."""

    def __init__(
        self,
        plan: StepPlan,
        jobs: Jobs,
        all_jobs: dict[Hashable, Job],
        seq_ids: Iterator[int],
        now: float,
    ) -> None:
        self._plan = plan
        self._jobs = jobs
        self._all = all_jobs
        self._seq_ids = seq_ids
        self._now = now
        self._tokens: list[NewToken] = []
        self._written = {row.seq_id: row.seq_len for row in plan.rows}
        names = dict.fromkeys(row.request_id for row in plan.rows)
        self._touched = [
            all_jobs[name]
            for name in names
            if name in all_jobs and any(each.seq_id in self._written for each in all_jobs[name].sequences)
        ]  # in the order of the plan, without those aborted since

    def validate(self, results: Results) -> None:
        """Raise K707 for results that do not fit the plan."""
        number, expected = self._plan.number, set(self._plan.sampled)
        if odd := results.keys() - expected:
            raise fault("K707", f"sequence {min(odd)} was not sampled in step {number}")
        for job in self._touched:
            going_on = 0
            for sequence in job.sequences:
                if sequence.seq_id not in expected:
                    continue
                branches = results.get(sequence.seq_id)
                if branches is None:
                    raise fault("K707", f"sequence {sequence.seq_id} has no token from step {number}")
                going_on += sum([branch.finish is None for branch in branches])
            if going_on > job.request.width:
                name, width = job.request.request_id, job.request.width
                raise fault("K707", f"request {name!r} may have {width} sequences and gets {going_on}")

    def run(self, results: Results) -> Outcome:
        """Do it, with results that are valid."""
        chunks = {chunk.seq_id for chunk in self._plan.prefills}
        finished = []
        for job in self._touched:
            for sequence in job.sequences:
                if sequence.seq_id in self._written:
                    sequence.written = self._written[sequence.seq_id]
                if sequence.seq_id in chunks:
                    self._jobs.residency.store(job, sequence)
            if any(sequence.seq_id in results for sequence in job.sequences):
                self._grow(job, results)
            if not job.sequences:
                finished.append(self._end(job))
        return Outcome(tuple(self._tokens), tuple(finished))

    def _grow(self, job: Job, results: Results) -> None:
        if job.first_token is None:
            job.first_token = self._now
        grown: list[JobSequence] = []
        for sequence in job.sequences:
            grown += self._branch(job, sequence, results[sequence.seq_id])
        job.sequences = grown

    def _branch(self, job: Job, parent: JobSequence, branches: Sequence[Branch]) -> list[JobSequence]:
        """The sequences that go on from one. The last of them keeps the parent's id and pages."""
        ends = [self._finish(job, parent, branch) for branch in branches]
        last = max((place for place, end in enumerate(ends) if end is None), default=None)
        if ends.count(None) > 1:
            self._jobs.residency.store(job, parent)
        going_on = []
        for place, (branch, end) in enumerate(zip(branches, ends, strict=True)):
            keeps_id = place == last or len(branches) == 1
            seq_id = parent.seq_id if keeps_id else next(self._seq_ids)
            self._tokens.append(NewToken(job.request.request_id, seq_id, parent.seq_id, branch.token, end))
            if end is not None:
                tokens = (*parent.tokens[job.prompt_len :], branch.token)
                job.outputs.append(Output(seq_id, tokens, end))
            elif place != last:
                going_on.append(self._fork(parent, seq_id, branch.token))
        if last is None:
            self._jobs.residency.drop(job, parent, keep=bool(branches))
            return going_on
        parent.tokens.append(branches[last].token)
        parent.goal = parent.written
        return [*going_on, parent]

    def _fork(self, parent: JobSequence, seq_id: int, token: int) -> JobSequence:
        self._jobs.residency.manager.fork(parent.seq_id, seq_id)
        tokens = parent.tokens[:]
        tokens.append(token)
        return JobSequence(seq_id, tokens, parent.written, parent.written, resident=True)

    def _finish(self, job: Job, parent: JobSequence, branch: Branch) -> str | None:
        if branch.finish is not None:
            return branch.finish
        made = len(parent.tokens) - job.prompt_len + 1
        return LENGTH if made >= job.request.max_new_tokens else None

    def _end(self, job: Job) -> Finished:
        name = job.request.request_id
        del self._all[name], self._jobs.running[name]
        job.state = State.ENDED
        return Finished(
            name,
            tuple(job.outputs),
            job.prompt_len,
            job.cached_tokens,
            job.preemptions,
            job.arrived,
            job.admitted or job.arrived,
            job.first_token or self._now,
            self._now,
        )
