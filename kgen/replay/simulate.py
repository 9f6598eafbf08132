"""The runtime under a trace: everything but the model, whose time is a formula.

A step takes `step_ms` and `row_us` for each of its query rows. Requests arrive when the trace says, on the
same clock; when nothing can run, it moves on to the next arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kgen.diagnostics import KgenError
from kgen.replay.content import Content
from kgen.replay.sampler import Sampler, Usage
from kgen.replay.traces import Trace, TraceRequest
from kgen.runtime import (
    BlockManager,
    Branch,
    Finished,
    ManualClock,
    PagePool,
    RadixCache,
    Request,
    Scheduler,
    SchedulerConfig,
    Stats,
    StepPlan,
    Totals,
)
from kgen.runtime.errors import fault, whole

Progress = Callable[[int, int], None]
"""Hears how many requests of how many have ended."""


@dataclass(frozen=True)
class Settings:
    """What the trace is sent through. `pool_tokens`: token slots of KV memory. `cached`: whether there is a
    prefix cache. `speed`: arrivals come so many times as fast as they did."""

    pool_tokens: int = 500_000
    page_size: int = 16
    cached: bool = True
    policy: str = "lru"
    watermark: float = 0.01
    host_tokens: int = 0
    step_ms: float = 10.0
    row_us: float = 20.0
    speed: float = 1.0
    scheduler: SchedulerConfig = field(default_factory=lambda: SchedulerConfig(max_batch_tokens=8192))

    def __post_init__(self) -> None:
        whole("page_size", self.page_size, 1)
        whole("pool_tokens", self.pool_tokens, self.page_size)
        whole("host_tokens", self.host_tokens)
        for name, least in (("step_ms", 0), ("row_us", 0)):
            if not getattr(self, name) >= least:
                raise fault("K701", f"{name} is {getattr(self, name)}, expected at least {least}")
        if not self.speed > 0:
            raise fault("K701", f"speed is {self.speed}, expected above 0")

    def seconds(self, plan: StepPlan) -> float:
        """How long a step takes."""
        return self.step_ms / 1e3 + plan.num_tokens * self.row_us / 1e6


@dataclass(frozen=True)
class Record:
    """A request that has ended, and when the trace had it arrive."""

    request: TraceRequest
    arrived: float
    end: Finished


@dataclass(frozen=True)
class Replayed:
    """A trace's run. `refused`: requests larger than the pool. `seconds`: on the simulation's clock."""

    records: tuple[Record, ...]
    refused: int
    seconds: float
    totals: Totals
    stats: Stats | None
    usage: Usage


class Simulation:
    """One run of a trace. `scheduler`, and with it cache and pool, may be looked at afterwards."""

    def __init__(self, trace: Trace, settings: Settings, check: bool | None = None) -> None:
        pool = PagePool(settings.pool_tokens // settings.page_size)
        self.clock = ManualClock()
        self.cache = None
        if settings.cached:
            self.cache = RadixCache(pool, settings.page_size, settings.policy, clock=self.clock, check=check)
        host_pages = settings.host_tokens // settings.page_size
        self._manager = BlockManager(
            pool,
            settings.page_size,
            self.cache,
            watermark=settings.watermark,
            host_pages=host_pages,
            check=check,
        )
        self.scheduler = Scheduler(self._manager, settings.scheduler, clock=self.clock, check=check)
        self._settings = settings
        self._trace = trace
        self._pending = deque(enumerate(trace.requests))
        self._content = Content()
        self._sampler = Sampler(self.scheduler)
        self._refused = 0

    def run(self, progress: Progress = lambda ended, total: None) -> Replayed:
        """Until every request has ended."""
        records: list[Record] = []
        while self._pending or self.scheduler.has_work:
            self._submit_arrived()
            plan = self.scheduler.schedule()
            if plan.is_empty:
                self._wait()
                continue
            seconds = self._settings.seconds(plan)
            self._sampler.step(seconds)
            self.clock.advance(seconds)
            results = {seq_id: (Branch(self._content.output()),) for seq_id in plan.sampled}
            ended = self.scheduler.commit(results).finished
            records += [self._record(each) for each in ended]
            if ended:
                progress(len(records) + self._refused, len(self._trace.requests))
        stats = self.cache.stats if self.cache is not None else None
        usage = self._sampler.usage()
        return Replayed(tuple(records), self._refused, self.clock(), self.scheduler.totals, stats, usage)

    def _submit_arrived(self) -> None:
        while self._pending and self._arrival(self._pending[0][1]) <= self.clock():
            number, request = self._pending.popleft()
            prompt = self._content.prompt(request)
            try:
                self.scheduler.submit(Request(number, prompt, request.output_tokens))
            except KgenError as error:
                if error.diagnostics[0].code != "K706":
                    raise
                self._refused += 1

    def _wait(self) -> None:
        """Nothing can run: all is done, or the next request has not arrived."""
        if self._pending:
            self.clock.advance(max(0.0, self._arrival(self._pending[0][1]) - self.clock()))
        elif self.scheduler.has_work:
            raise fault("K708", "requests wait and none of them can ever run", hint="this is a fault of kgen")

    def _arrival(self, request: TraceRequest) -> float:
        return request.arrival / self._settings.speed

    def _record(self, end: Finished) -> Record:
        request = self._trace.requests[int(str(end.request_id))]
        return Record(request, self._arrival(request), end)
