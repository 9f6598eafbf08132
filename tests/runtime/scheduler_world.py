"""A scheduler with a model that is a hash, and memory that is a number a slot.

The model's next token depends on all tokens before it, which it reads from memory: if a step were to read the
wrong KV, it would be seen at once, and what a request outputs can be foretold without any scheduling.
"""

import random
from collections.abc import Callable

from kgen.runtime.blocks import BlockManager
from kgen.runtime.clock import ManualClock
from kgen.runtime.pages import PagePool
from kgen.runtime.plan import Branch, Outcome, StepPlan
from kgen.runtime.radix import RadixCache
from kgen.runtime.request import Request, SchedulerConfig
from kgen.runtime.scheduler import Scheduler
from tests.runtime.memory import Memory, kv_of

VOCABULARY = 5
STOP = 0

Sampler = Callable[[list[list[int]], Request], list[list[Branch]]]
"""For the sequences of a request, each as all its tokens, what each goes on with."""


def token_after(tokens: list[int], nth: int = 0) -> int:
    """The model: the `nth` best token after these."""
    return (kv_of(tokens)[-1] + nth * 7919) % VOCABULARY


def sample(rows: list[list[int]], request: Request) -> list[list[Branch]]:
    """Parallel samples: as many as asked for at the first token, then one each. STOP ends a sequence."""
    first = len(rows[0]) == len(request.prompt)
    count = request.width if first else 1
    tokens = [[token_after(row, nth) for nth in range(count)] for row in rows]
    return [[Branch(token, "stop" if token == STOP else None) for token in several] for several in tokens]


def endless(rows: list[list[int]], request: Request) -> list[list[Branch]]:
    """One token each, and no end before the length."""
    return [[Branch(token_after(row))] for row in rows]


def beam(rows: list[list[int]], request: Request) -> list[list[Branch]]:
    """Beam search: of all continuations the `width` best, so that beams fork and die."""
    candidates = [
        (kv_of([*row, token])[-1] % 1009, tuple(row), place, token)
        for place, row in enumerate(rows)
        for token in range(VOCABULARY)
    ]
    best = sorted(candidates)[: request.width]
    return [[Branch(token) for _, _, at, token in best if at == place] for place in range(len(rows))]


def foretold(request: Request, sampler: Sampler) -> list[tuple[int, ...]]:
    """The outputs of a request when it runs alone, sorted."""
    rows, ended = [list(request.prompt)], []
    while rows:
        grown = []
        for row, branches in zip(rows, sampler(rows, request), strict=True):
            for branch in branches:
                longer = [*row, branch.token]
                full = len(longer) - len(request.prompt) >= request.max_new_tokens
                (ended if full or branch.finish else grown).append(longer)
        rows = grown
    return sorted(tuple(row[len(request.prompt) :]) for row in ended)


class SchedulerWorld:
    """`run_step` plans, executes and commits a step, checking all that it reads."""

    def __init__(
        self,
        num_pages: int,
        page_size: int = 1,
        *,
        cached: bool = True,
        host_pages: int = 0,
        watermark: float = 0.0,
        check: bool = True,
        policy: str = "lru",
        **config,
    ) -> None:
        self.clock = ManualClock()
        self.pool = PagePool(num_pages)
        self.cache = (
            RadixCache(self.pool, page_size, policy, clock=self.clock, check=check) if cached else None
        )
        self.manager = BlockManager(
            self.pool, page_size, self.cache, watermark=watermark, host_pages=host_pages, check=check
        )
        config = {"max_batch_tokens": 64, "max_sequences": 16, "share_min": 1, **config}
        self.scheduler = Scheduler(self.manager, SchedulerConfig(**config), clock=self.clock, check=check)
        self.device, self.host = Memory(num_pages, page_size), Memory(host_pages, page_size)
        self.tokens: dict[int, list[int]] = {}
        self.requests: dict[object, tuple[Request, Sampler]] = {}
        self.finished: dict[object, list[tuple[int, ...]]] = {}
        self.records: dict[object, object] = {}
        self.plans: list[StepPlan] = []

    def submit(self, request: Request, sampler: Sampler = sample) -> None:
        self.scheduler.submit(request)
        self.requests[request.request_id] = request, sampler

    def ask(self, name, prompt, max_new_tokens: int = 4, sampler: Sampler = sample, **more) -> None:
        """Submit a prompt."""
        self.submit(Request(name, list(prompt), max_new_tokens, **more), sampler)

    def run_step(self) -> StepPlan:
        plan = self.plan()
        self.execute(plan)
        if not plan.is_empty:
            self.commit(plan)
        return plan

    def plan(self) -> StepPlan:
        plan = self.scheduler.schedule()
        self.plans.append(plan)
        config = self.scheduler.config
        assert plan.num_tokens <= config.max_batch_tokens
        assert len({row.seq_id for row in plan.rows}) == len(plan.rows) <= config.max_sequences
        assert not {row.request_id for row in plan.rows} & set(plan.preempted) - set(plan.admitted)
        return plan

    def execute(self, plan: StepPlan) -> None:
        """Copy, check what each row reads, write."""
        self.host.copy(plan.swap_out, self.device)
        self.device.copy(plan.swap_in, self.host)
        self.device.copy(plan.copies)
        written: list[int] = []
        for chunk in plan.prefills:
            request, _ = self.requests[chunk.request_id]
            known = self.tokens.setdefault(chunk.seq_id, list(request.prompt))
            assert chunk.tokens.tolist() == known[chunk.start : chunk.seq_len]
            self.expect(chunk.pages, known[: chunk.start], request)
            self.device.write(chunk.slots, kv_of(known, request.namespace)[chunk.start : chunk.seq_len])
            written += chunk.slots.tolist()
        for row in plan.decodes:
            request, _ = self.requests[row.request_id]
            known = self.tokens[row.seq_id]
            assert (row.token, row.position) == (known[-1], len(known) - 1)
            self.expect(row.pages, known[:-1], request)
            self.device.write([row.slot], kv_of(known, request.namespace)[-1:])
            written.append(row.slot)
        assert len(set(written)) == len(written), "two rows write one slot"
        for row in plan.rows:
            request, _ = self.requests[row.request_id]
            self.expect(row.pages, self.tokens[row.seq_id][: row.seq_len], request)

    def expect(self, pages, tokens: list[int], request: Request) -> None:
        assert self.device.read(pages, len(tokens)) == kv_of(tokens, request.namespace)

    def results(self, plan: StepPlan) -> dict[int, list[Branch]]:
        """What the samplers say to a plan."""
        by_request: dict[object, list[int]] = {}
        for row in plan.rows:
            if row.seq_id in plan.sampled:
                by_request.setdefault(row.request_id, []).append(row.seq_id)
        found = {}
        for name, seq_ids in by_request.items():
            request, sampler = self.requests[name]
            rows = [self.tokens[seq_id] for seq_id in seq_ids]
            found.update(zip(seq_ids, sampler(rows, request), strict=True))
        return found

    def commit(self, plan: StepPlan, results: dict[int, list[Branch]] | None = None) -> Outcome:
        outcome = self.scheduler.commit(self.results(plan) if results is None else results)
        parents = {row.seq_id: self.tokens[row.seq_id] for row in plan.rows}
        for new in outcome.tokens:
            self.tokens[new.seq_id] = [*parents[new.parent_id], new.token]
        for record in outcome.finished:
            request, sampler = self.requests[record.request_id]
            self.finished[record.request_id] = sorted(output.tokens for output in record.outputs)
            self.records[record.request_id] = record
            assert self.finished[record.request_id] == foretold(request, sampler)
        self.scramble()
        return outcome

    def discard(self) -> None:
        """Give up a step that was planned and not run."""
        self.scheduler.discard()
        self.scramble()

    def scramble(self) -> None:
        """Spoil what nobody owns. Only right after a step: the next one may read pages given up since."""
        self.device.scramble(self.pool)
        self.host.scramble(self.manager.swap.pool)

    def run(self, steps: int = 1000) -> None:
        """Until every request has ended."""
        for _ in range(steps):
            if not self.scheduler.has_work:
                return
            self.run_step()
        raise AssertionError(f"requests have not ended in {steps} steps")

    def at_rest(self) -> None:
        """Nothing runs: no page is held, no lock is left, and all that is cached can be evicted."""
        self.clock.advance(10_000)
        assert self.pool.num_held == 0 and self.manager.swap.pool.num_held == 0
        assert not self.manager.tables and not self.manager.swap.tables
        if self.cache is not None:
            assert self.cache.evictable_pages == self.pool.num_cached and not self.cache.locks
        assert self.pool.num_available == self.pool.num_pages
        self.scheduler.check_integrity()


def random_request(name: object, draw: random.Random, longest: int = 14) -> tuple[Request, Sampler]:
    """A request of few kinds of tokens, so that prompts share beginnings."""
    prompt = [draw.randrange(2) for _ in range(draw.randrange(1, longest + 1))]
    width, sampler = draw.choice([(1, sample), (1, sample), (2, sample), (2, beam), (3, beam)])
    return (
        Request(
            name,
            prompt,
            draw.randrange(1, 9),
            width=width,
            priority=draw.randrange(3),
            insert=draw.random() < 0.8,
        ),
        sampler,
    )
