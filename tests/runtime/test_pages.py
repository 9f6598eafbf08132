"""Ownership of pages: three states, and nothing that leaves one twice."""

import numpy as np
import pytest

from kgen.runtime.pages import CACHED, PagePool
from tests.runtime.samples import refused


def ids(*pages: int) -> np.ndarray:
    return np.array(pages, np.int32)


def state(pool: PagePool) -> tuple:
    return pool.num_free, pool.num_held, pool.num_cached, pool.ref_counts.tolist()


def test_pages_go_free_held_cached_free():
    pool = PagePool(4)
    pages = pool.allocate(3)
    assert sorted(pages.tolist()) == [0, 1, 2] and pages.dtype == np.int32
    assert (pool.num_free, pool.num_held, pool.num_cached) == (1, 3, 0)
    pool.adopt(pages[:2])
    assert (pool.num_free, pool.num_held, pool.num_cached) == (1, 1, 2)
    assert pool.ref_counts.tolist() == [CACHED, CACHED, 1, 0]
    pool.drop(pages[:2])
    assert pool.release(pages[2:]) == 1
    assert state(pool) == (4, 0, 0, [0] * 4)
    assert pool.findings() == []


def test_a_shared_page_counts_once_and_is_free_when_its_last_holder_goes():
    pool = PagePool(3)
    pages = pool.allocate(2)
    pool.share(pages[:1])
    assert pool.num_held == 2 and pool.ref_counts[pages].tolist() == [2, 1]
    assert pool.release(pages) == 1
    assert pool.num_held == 1
    assert pool.release(pages[:1]) == 1
    assert pool.num_free == 3


def test_pages_come_back_in_any_order():
    pool = PagePool(100)
    pages = pool.allocate(100)
    order = np.random.default_rng(3).permutation(pages)
    for start in range(0, 100, 7):
        pool.release(order[start : start + 7])
    assert pool.num_free == 100 and pool.findings() == []
    assert sorted(pool.allocate(100).tolist()) == list(range(100))


@pytest.mark.parametrize(
    ("operation", "pages", "words"),
    [
        ("release", ids(3), "page 3 is free and cannot be released"),
        ("share", ids(0, 3), "page 3 is free and cannot be shared"),
        ("adopt", ids(3), "page 3 is free"),
        ("drop", ids(0), "page 0 is held and cannot be dropped"),
        ("release", ids(2), "page 2 belongs to the tree"),
        ("adopt", ids(0, 2), "page 2 belongs to the tree"),
        ("adopt", ids(0, 1), "page 1 is held by several"),
        ("release", ids(0, 1, 0), "occurs twice"),
        ("release", ids(0, -1), "page -1 does not exist"),
        ("release", ids(0, 5), "page 5 does not exist; pages are 0 to 4"),
        ("release", ids(0, 1, 2, 3, 4, 0), "6 pages are listed; there are only 5"),
    ],
)
def test_what_is_not_the_callers_is_refused_and_nothing_changes(operation, pages, words):
    pool = PagePool(5)
    held = pool.allocate(3)
    pool.share(held[1:2])
    pool.adopt(held[2:])
    before = state(pool)
    with refused("K703", words):
        getattr(pool, operation)(pages)
    assert state(pool) == before and pool.findings() == []


def test_a_page_released_twice_in_one_call_or_in_two_is_refused():
    pool = PagePool(2)
    pages = pool.allocate(1)
    with refused("K703", "occurs twice"):
        pool.release(np.concatenate([pages, pages]))
    assert pool.num_held == 1
    pool.release(pages)
    with refused("K703", "is free and cannot be released"):
        pool.release(pages)


def test_more_than_there_is_and_negative_counts_are_refused():
    pool = PagePool(3)
    pool.allocate(2)
    with refused("K702", "2 pages are wanted; 1 are free and 0 more could be evicted"):
        pool.allocate(2)
    with refused("K701", "count is -1"):
        pool.allocate(-1)
    with refused("K701", "expected an integer"):
        pool.allocate(1.5)
    assert pool.num_free == 1
    assert len(pool.allocate(0)) == 0


def test_findings_name_a_planted_fault():
    pool = PagePool(4)
    pages = pool.allocate(2)
    pool.ref_counts[pages[0]] = 0
    assert pool.findings() == ["a page nobody owns is not on the free stack"]
    pool.ref_counts[pages[0]] = CACHED
    assert pool.findings() == ["the count of cached pages is wrong"]
