"""The engine: requests in, tokens out, by way of scheduler, pages and kernels."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kgen.engine.batch import StepAttention, pack
from kgen.engine.beams import BeamTrack
from kgen.engine.checks import check_model, check_request
from kgen.engine.errors import fault
from kgen.engine.kernels import Kernels, OpsKernels
from kgen.engine.memory import EngineConfig, Memory
from kgen.engine.model import Model
from kgen.engine.request import Event, GenerateRequest, RequestResult
from kgen.engine.stats import Counts, EngineStats
from kgen.engine.text import Decode
from kgen.engine.tracks import ABORT, Ending, SampleTrack, Track
from kgen.runtime import Branch, Clock, Finished, NewToken, Outcome, Request, Scheduler, StepPlan
from kgen.runtime.errors import broken


@dataclass(slots=True)
class _Active:
    """A request under way."""

    request: GenerateRequest
    track: Track
    arrived: float
    first_token: float | None = None


class Engine:
    """Continuous batching of a model over paged memory with a prefix cache.

    `decode`: token ids to text, without special tokens; without it events and results have no text.
    `kernels`: those of `kgen.ops` unless others are given. `clock`: for the times in results.
    """

    def __init__(
        self,
        model: Model,
        config: EngineConfig,
        *,
        decode: Decode | None = None,
        kernels: Kernels | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        check_model(model)
        self.model, self.config = model, config
        self.memory = Memory(config, model.kv, model.device)
        self.scheduler = Scheduler(self.memory.manager, config.scheduler, clock=clock, check=config.check)
        self._decode, self._kernels, self._clock = decode, kernels or OpsKernels(), clock
        self._active: dict[Hashable, _Active] = {}
        self._counts = Counts()

    def submit(self, request: GenerateRequest) -> None:
        """Let a request wait for its turn. Raises K801 or K802 for one that means nothing to this model, and
        K706 for an id in use and for what all of the memory could not hold."""
        check_request(request, self.model, self._decode is not None)
        params = request.params
        ends = frozenset(params.stop_tokens)
        ending = Ending(ends if params.ignore_eos else ends | self.model.end_tokens, self._decode)
        name = request.request_id
        track: Track = BeamTrack(params, ending) if params.beams else SampleTrack(name, params, ending)
        self.scheduler.submit(
            Request(
                name,
                request.prompt,
                params.max_new_tokens,
                params.width,
                request.priority,
                request.namespace,
                request.insert,
            )
        )
        self._active[name] = _Active(request, track, self._clock())

    def step(self) -> tuple[Event, ...]:
        """Compute one step: at most one forward pass. Returns the tokens that came of it, each followed by
        the result of its request where that ended.

        A step that raises is forgotten, and what was in it will be computed again. Raises K804 when nothing
        can be computed though there is work.
        """
        plan = self.scheduler.schedule()
        if plan.is_empty:
            if self.scheduler.has_work:
                raise fault("K804", "no request fits into memory", "release what is pinned in the cache")
            return ()
        begin = time.perf_counter()
        try:
            branches = self._run(plan)
        except BaseException:
            self.scheduler.discard()
            raise
        outcome = self.scheduler.commit(branches)
        self._count(plan, time.perf_counter() - begin)
        return tuple(self._settle(outcome))

    def stream(self) -> Iterator[Event]:
        """The events of all requests until none is left. More may be submitted, and any aborted, meanwhile;
        what a step brought of one before it was aborted is still told."""
        while self.has_work:
            yield from self.step()

    def generate(self, requests: Iterable[GenerateRequest]) -> list[RequestResult]:
        """Submit all, run until they and everything before them have ended; results in the given order. When
        one of them is refused, none is under way."""
        names: list[Hashable] = []
        try:
            for request in requests:
                self.submit(request)
                names.append(request.request_id)
        except BaseException:
            for name in names:
                self.abort(name)
            raise
        results = {event.request_id: event for event in self.stream() if isinstance(event, RequestResult)}
        return [results[name] for name in names]

    def abort(self, request_id: Hashable) -> RequestResult:
        """End a request at once and give its memory up. Returns what there is of it; how much of its prompt
        was reused, and how often it was preempted, is not told. Raises K706."""
        self.scheduler.abort(request_id)
        active = self._active.pop(request_id)
        return RequestResult(
            request_id,
            active.track.completions(ABORT),
            len(active.request.prompt),
            0,
            0,
            active.arrived,
            active.first_token,
            self._clock(),
        )

    @property
    def has_work(self) -> bool:
        """Whether any request has not ended."""
        return bool(self._active)

    @property
    def stats(self) -> EngineStats:
        """The totals up to now."""
        totals, counts, pool = self.scheduler.totals, self._counts, self.memory.manager.pool
        return EngineStats(
            requests=counts.requests,
            prompt_tokens=counts.prompt_tokens,
            reused_tokens=counts.reused_tokens,
            new_tokens=counts.new_tokens,
            steps=totals.steps,
            prefill_tokens=totals.prefill_tokens,
            decode_tokens=totals.decode_tokens,
            pure_decode_tokens=counts.pure_decode_tokens,
            prefill_seconds=counts.prefill_seconds,
            decode_seconds=counts.decode_seconds,
            preemptions=totals.preemptions,
            copied_blocks=totals.copied_pages,
            num_blocks=pool.num_pages,
            held_blocks=pool.num_held,
            cached_blocks=pool.num_cached,
            peak_blocks=counts.peak_blocks,
        )

    def check_integrity(self) -> None:
        """Derive every count of scheduler, tables, cache and pool from the structures, and hold the requests
        of the engine against those of the scheduler. Raises K708."""
        self.scheduler.check_integrity()
        scheduled = self.scheduler.num_waiting + self.scheduler.num_running
        if scheduled != len(self._active):
            raise broken(
                [f"the engine has {len(self._active)} requests under way, the scheduler {scheduled}"]
            )

    @torch.inference_mode()
    def _run(self, plan: StepPlan) -> dict[int, list[Branch]]:
        """Compute a plan, and what each sampled sequence goes on with."""
        self.memory.move(plan)
        if not plan.rows:
            return {}
        batch = pack(plan, self.memory.kv, self.model.device)
        attend = StepAttention(self.memory, self._kernels, batch)
        logits = self.model.forward(batch.tokens, batch.positions, batch.wanted, attend)
        return self._propose(plan, logits)

    def _propose(self, plan: StepPlan, logits: Tensor) -> dict[int, list[Branch]]:
        names = {row.seq_id: row.request_id for row in plan.rows}
        rows: dict[Hashable, dict[int, Tensor]] = {}
        for seq_id, row in zip(plan.sampled, logits.cpu(), strict=True):
            rows.setdefault(names[seq_id], {})[seq_id] = row
        branches: dict[int, list[Branch]] = {}
        for name, found in rows.items():
            branches |= self._active[name].track.propose(found)
        return branches

    def _settle(self, outcome: Outcome) -> Iterator[Event]:
        by_request: dict[Hashable, list[NewToken]] = {}
        for token in outcome.tokens:
            by_request.setdefault(token.request_id, []).append(token)
        ended = {finished.request_id: finished for finished in outcome.finished}
        for name in dict.fromkeys((*by_request, *ended)):
            active = self._active[name]
            if active.first_token is None:
                active.first_token = self._clock()
            yield from active.track.settle(by_request.get(name, []))
            if name in ended:
                del self._active[name]
                yield self._result(active, ended[name])

    def _result(self, active: _Active, finished: Finished) -> RequestResult:
        completions = active.track.completions(ABORT)
        counts = self._counts
        counts.requests += 1
        counts.prompt_tokens += finished.prompt_tokens
        counts.reused_tokens += finished.cached_tokens
        counts.new_tokens += sum(len(each.tokens) for each in completions)
        return RequestResult(
            finished.request_id,
            completions,
            finished.prompt_tokens,
            finished.cached_tokens,
            finished.preemptions,
            finished.arrived,
            finished.first_token,
            finished.finished,
        )

    def _count(self, plan: StepPlan, seconds: float) -> None:
        counts, pool = self._counts, self.memory.manager.pool
        if plan.prefills:
            counts.prefill_seconds += seconds
        else:
            counts.decode_seconds += seconds
            counts.pure_decode_tokens += len(plan.decodes)
        counts.peak_blocks = max(counts.peak_blocks, pool.num_pages - pool.num_available)
