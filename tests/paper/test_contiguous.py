import random

from kgen.paper.contiguous import ContiguousMemory


def test_the_first_hole_that_is_large_enough_is_taken():
    memory = ContiguousMemory(20)
    assert [memory.allocate(length) for length in (4, 2, 6, 8)] == [0, 4, 6, 12]
    assert memory.allocate(1) is None and memory.num_free == 0
    memory.release(4, 2)
    memory.release(6, 6)
    assert memory.num_free == 8
    assert memory.allocate(8) == 4  # neighbours have joined


def test_holes_that_do_not_touch_stay_apart():
    memory = ContiguousMemory(16)
    starts = [memory.allocate(2) for _ in range(8)]
    for start in starts[::2]:
        memory.release(start, 2)
    assert memory.num_free == 8 and memory.allocate(3) is None
    memory.release(2, 2)
    assert memory.allocate(3) == 0


def test_regions_never_overlap_and_all_comes_back():
    draw = random.Random(3)
    memory, regions = ContiguousMemory(100), {}
    for _ in range(2000):
        if regions and draw.random() < 0.5:
            start = draw.choice(list(regions))
            memory.release(start, regions.pop(start))
        else:
            length = draw.randrange(1, 12)
            start = memory.allocate(length)
            if start is not None:
                taken = {unit for at, size in regions.items() for unit in range(at, at + size)}
                assert taken.isdisjoint(range(start, start + length)) and start + length <= 100
                regions[start] = length
        assert memory.num_free == 100 - sum(regions.values())
    for start, length in regions.items():
        memory.release(start, length)
    assert memory.allocate(100) == 0
