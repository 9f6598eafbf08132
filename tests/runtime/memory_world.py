"""Pool, tree and tables driven together by one operation after another, against a model.

The model keeps each sequence as a list of tokens and KV as one number a slot. After every operation what
a sequence reads must be the KV of its own tokens, and what the tree finds must be what events said is stored.
"""

import random

from kgen.runtime.blocks import BlockManager
from kgen.runtime.clock import ManualClock
from kgen.runtime.events import ClearedEvent, RemovedEvent, StoredEvent
from kgen.runtime.keys import DEFAULT, Key, Namespace, token_bytes
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache
from kgen.runtime.room import Room
from tests.runtime.memory import Memory, kv_of

SPACES = (DEFAULT, Namespace(adapter="x"), Namespace(salt="x"))
HOST_PAGES = 12


class MemoryWorld:
    def __init__(self, num_pages: int, page_size: int, policy: str, *, check: bool) -> None:
        self.clock = ManualClock()
        pool = PagePool(num_pages)
        self.cache = RadixCache(pool, page_size, policy, clock=self.clock, on_event=self.hear, check=check)
        self.manager = BlockManager(
            pool, page_size, self.cache, watermark=0.0, host_pages=HOST_PAGES, check=check
        )
        self.page_size = page_size
        self.device, self.host = Memory(num_pages, page_size), Memory(HOST_PAGES, page_size)
        self.sequences: dict[int, tuple[list[int], Namespace]] = {}
        self.away: dict[int, tuple[list[int], Namespace]] = {}
        self.stored: dict[int, tuple[Namespace, tuple[int, ...]]] = {}  # page -> the prefix it ends
        self.prefixes: dict[tuple[Namespace, tuple[int, ...]], int] = {}
        self.numbers = iter(range(10**9))

    def hear(self, event) -> None:
        if isinstance(event, StoredEvent):
            prefix = self.stored[event.after_page][1] if event.after_page >= 0 else ()
            for place, page in enumerate(event.pages):
                prefix += event.tokens[place * self.page_size : (place + 1) * self.page_size]
                assert page not in self.stored and (event.namespace, prefix) not in self.prefixes
                self.stored[page] = event.namespace, prefix
                self.prefixes[event.namespace, prefix] = page
        elif isinstance(event, RemovedEvent):
            for table in self.manager.tables.values():
                assert set(table.pages.tolist()).isdisjoint(event.pages), "a page in use was evicted"
            for page in event.pages:
                del self.prefixes[self.stored.pop(page)]
        else:
            assert isinstance(event, ClearedEvent) and not self.stored

    def admit(self, tokens: list[int], space: Namespace) -> None:
        match = self.cache.match_prefix(Key.of(tokens, space), limit=len(tokens) - 1)
        assert match.length == self.longest(tokens[:-1], space)
        if self.manager.room_for(len(tokens), match) is not Room.OK:
            return
        name = next(self.numbers)
        self.manager.allocate(name, len(tokens), match)
        fresh = self.manager.slots(name, match.length, len(tokens))
        self.device.write(fresh, kv_of(tokens, space)[match.length :])
        self.sequences[name] = tokens, space

    def append(self, names: list[int], draw: random.Random) -> None:
        if self.manager.pages_to_append(names) > self.manager.pool.num_available:
            return
        self.device.copy(self.manager.append_slots(names))
        for name in names:
            tokens, space = self.sequences[name]
            self.sequences[name] = [*tokens, draw.randrange(3)], space
            length = len(tokens) + 1
            self.device.write(
                self.manager.slots(name, length - 1, length), kv_of(self.sequences[name][0], space)[-1:]
            )

    def fork(self, name: int) -> None:
        free = self.manager.pool.num_free
        child = next(self.numbers)
        self.manager.fork(name, child)
        assert self.manager.pool.num_free == free
        self.sequences[child] = self.sequences[name]

    def checkpoint(self, name: int) -> None:
        tokens, _ = self.sequences[name]
        done = self.manager.checkpoint(name, token_bytes(tokens), len(tokens))
        assert done <= self.longest(*self.sequences[name])

    def free(self, name: int) -> None:
        self.manager.free(name)
        self.sequences.pop(name, None)
        self.away.pop(name, None)

    def swap_out(self, names: list[int]) -> None:
        if self.manager.room_to_swap_out(names):
            self.host.copy(self.manager.swap_out(names), self.device)
            for name in names:
                self.away[name] = self.sequences.pop(name)

    def swap_in(self, names: list[int]) -> None:
        if self.manager.room_to_swap_in(names) is Room.OK:
            space = self.away[names[0]][1]
            self.device.copy(self.manager.swap_in(names, space), self.host)
            for name in names:
                self.sequences[name] = self.away.pop(name)

    def longest(self, tokens: list[int], space: Namespace) -> int:
        """How much of these tokens the model has stored, in whole pages."""
        found = 0
        while (space, tuple(tokens[: found + self.page_size])) in self.prefixes:
            if found + self.page_size > len(tokens):
                break
            found += self.page_size
        return found

    def verify(self) -> None:
        """Every sequence reads its own KV, and every stored prefix is there whole."""
        self.device.scramble(self.manager.pool)
        self.host.scramble(self.manager.swap.pool)
        for name, (tokens, space) in self.sequences.items():
            pages = self.manager.table(name).pages
            assert self.device.read(pages, len(tokens)) == kv_of(tokens, space)
        for page, (space, prefix) in self.stored.items():
            assert self.device.read([page], self.page_size) == kv_of(prefix, space)[-self.page_size :]
        pool = self.manager.pool
        assert pool.num_free + pool.num_held + pool.num_cached == pool.num_pages
        assert pool.num_cached == len(self.stored)

    def finish(self) -> None:
        """End every sequence: no page stays held, and every cached one can be evicted."""
        for name in [*self.sequences, *self.away]:
            self.free(name)
        self.clock.advance(1000)
        assert self.cache.evictable_pages == self.manager.pool.num_cached
        assert self.manager.pool.num_held == 0 and self.manager.swap.pool.num_held == 0
        self.cache.clear()
        assert self.manager.pool.num_free == self.manager.pool.num_pages
        self.manager.check_integrity()


def step(world: MemoryWorld, draw: random.Random) -> None:
    """One operation, whatever can be done. Only a few sequences live at once, so that some always fit."""
    here, away = list(world.sequences), list(world.away)
    while len(here) + len(away) > 7:
        world.free(draw.choice(here + away))
        here, away = list(world.sequences), list(world.away)
    choice = draw.randrange(20)
    if choice < 5 or not here:
        world.admit(*prompt(world, draw))
    elif choice < 10:
        world.append(draw.sample(here, draw.randrange(1, min(len(here), 4) + 1)), draw)
    elif choice < 12:
        world.fork(draw.choice(here))
    elif choice < 15:
        world.checkpoint(draw.choice(here))
    elif choice < 17:
        world.free(draw.choice(here))
    elif choice == 17:
        world.swap_out(draw.sample(here, draw.randrange(1, min(len(here), 3) + 1)))
    elif choice == 18 and away:
        space = world.away[away[0]][1]
        world.swap_in([name for name in away if world.away[name][1] == space])
    else:
        other(world, draw)


def prompt(world: MemoryWorld, draw: random.Random) -> tuple[list[int], Namespace]:
    """Tokens of few kinds; half of the time they begin as something stored does."""
    tail = [draw.randrange(3) for _ in range(draw.randrange(1, 14))]
    if not world.prefixes or draw.random() < 0.5:
        return tail, draw.choice(SPACES)
    space, prefix = draw.choice(list(world.prefixes))
    return [*prefix, *tail][:20], space


def other(world: MemoryWorld, draw: random.Random) -> None:
    choice = draw.randrange(3)
    if choice == 0:
        world.cache.evict(draw.randrange(6))
    elif choice == 1:
        key = Key.of([draw.randrange(3) for _ in range(6)], draw.choice(SPACES))
        world.cache.pin(world.cache.match_prefix(key), draw.random() * 5)
    else:
        world.clock.advance(draw.random() * 3)
