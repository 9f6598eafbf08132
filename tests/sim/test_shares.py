"""Even shares: every tile is dealt once, shares are of one size, and kernels deal as the slow model does."""

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.sim import shares, simulated

SOURCE = Path(__file__).with_name("shares.cpp")
RULES = [(1, 2), (3, 1), (2, 4)]


def batches():
    """(tiles of each sequence, most workers, least share, enough workers)."""
    draw = random.Random(5)
    yield [0], 10, 4, 5
    yield [1], 528, 4, 100
    yield [0, 0, 0], 7, 1, 3
    yield [2048], 66, 4, 33
    yield [2048, *[1] * 63], 66, 4, 33
    yield [64] * 64, 33, 4, 16
    yield [16] * 256, 66, 4, 33
    yield [16] * 257, 66, 4, 33
    yield [128] * 16, 33, 4, 16
    yield [128] * 15, 33, 4, 16
    yield [128] * 15, 33, 4, 30  # just enough in halves
    yield [5] * 4 + [6, 4] * 62, 33, 4, 16  # alike only in sum
    yield [37] * 35, 33, 4, 16
    yield [37] * 34, 33, 4, 33
    yield [7] * 600, 66, 4, 1
    yield [7] * 409 + [8] + [7] * 190, 66, 4, 1  # alike but for one, which no lane keeps
    yield ([7] * 8 + [8] * 2) * 32, 66, 4, 1  # alike among those that are kept
    yield ([7] * 8 + [8] * 2) * 64, 66, 4, 1
    yield [2, 9, 5] * 300, 66, 4, 33
    yield [draw.randrange(129) for _ in range(300)], 176, 4, 88
    yield [1] * 1000, 132, 4, 66
    for _ in range(40):
        rows = draw.choice([1, 2, 5, 33, 64, 65, 130, 256, 257, 700])
        tiles = [draw.choice([0, 1, 3, draw.randrange(40), draw.randrange(400)]) for _ in range(rows)]
        if draw.random() < 0.3:
            tiles = tiles[:1] * rows
        most = draw.choice([1, 2, 7, 40, 600])
        yield tiles, most, draw.choice([1, 4, 9]), draw.choice([1, most // 2 + 1, most])


@pytest.mark.parametrize(("cost", "least"), RULES)
def test_every_tile_is_dealt_once_and_every_row_ends_once(cost, least):
    for tiles, most, share, enough in batches():
        dealt = shares.deal(tiles, most, share, cost, least, enough)
        pieces = defaultdict(list)
        for mine in dealt:
            for piece in mine:
                pieces[piece.seq].append(piece)
        assert list(pieces) == list(range(len(tiles)))
        for seq, parts in pieces.items():
            assert parts[0].first == 0 and parts[-1].last == tiles[seq]
            for one, after in pairwise(parts):
                assert one.last == after.first and one.last - one.first >= min(least, share)
            if len(parts) > 1:
                assert min(part.last - part.first for part in parts) >= 1
                assert parts[0].last >= least and tiles[seq] - parts[-1].first >= least


@pytest.mark.parametrize(("cost", "least"), RULES)
def test_no_worker_has_more_than_its_share(cost, least):
    for tiles, most, share, enough in batches():
        dealt = shares.deal(tiles, most, share, cost, least, enough)
        total = sum(cost + count for count in tiles)
        workers = max(1, min(total // share, most))
        assert min(enough, workers) <= len(dealt) <= workers
        if len(set(tiles)) > 1:
            assert len(dealt) == workers
        for mine in dealt:
            load = sum(piece.last - piece.first + (cost if piece.first == 0 else 0) for piece in mine)
            assert load <= -(-total // len(dealt)) * 32 / 31 + 2 * (least + cost - 1)


def test_rows_of_one_length_stay_whole_where_they_fill_the_chip():
    assert shares.cuts([64] * 64, 33, 4, 1, 2, enough=16) == [(row, 0) for row in range(0, 65, 2)]
    assert shares.cuts([128] * 16, 33, 4, 1, 2, enough=16) == [(row, 0) for row in range(17)]
    halves = [(row, tile) for row in range(15) for tile in (0, 64)]
    assert shares.cuts([128] * 15, 33, 4, 1, 2, enough=28) == [*halves, (15, 0)]
    assert len(shares.cuts([128] * 15, 33, 4, 1, 2, enough=31)) == 33 + 1


@pytest.fixture(scope="module", params=[(wave, *rule) for wave in (32, 64) for rule in RULES])
def device(request, tmp_path_factory):
    wave, cost, least = request.param
    output = tmp_path_factory.mktemp("shares") / "shares.so"
    flags = (f"-DkCost={cost}", f"-DkLeast={least}")
    return simulated.compile_kernels(output, wave, *flags, source=SOURCE), cost, least


def test_kernels_deal_as_the_model_does(device):
    kernels, cost, least = device
    for tiles, most, share, enough in batches():
        room = 5 + len(tiles) + 4 * (most + 1)
        data = torch.zeros(room, dtype=torch.int32)
        data[:4] = torch.tensor([len(tiles), most, share, enough])
        data[4 : 4 + len(tiles)] = torch.tensor(tiles) + cost
        answer = kernels.call("shares", data)
        assert answer.code == 0, answer.message
        expected = shares.cuts(tiles, most, share, cost, least, enough)
        workers = int(data[4 + len(tiles)])
        assert workers == len(expected) - 1
        found = data[5 + len(tiles) :].view(-1, 4)[: workers + 1].tolist()
        assert [(seq, tile) for seq, tile, *_ in found] == expected
        for worker, (row, tile) in enumerate(expected):
            if tile:
                inside = [other for other, (there, at) in enumerate(expected) if there == row and at > 0]
                assert found[worker][2:] == [inside[0] - 1, len(inside) + 1]
