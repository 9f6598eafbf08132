"""Even shares worked out slowly: what kernels do with a few divisions, as lists."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Piece:
    """Tiles [first, last) of a row, which one worker takes."""

    seq: int
    first: int
    last: int


def cuts(tiles, most, share, cost, least):
    """Where each worker's share begins and the last one ends: (row, tile), rows in the order of the line."""
    line = [(row, at) for row, count in enumerate(tiles) for at in range(cost + count)]
    if not line:
        return []
    workers = max(1, min(len(line) // share, most))
    each, more = divmod(len(line), workers)
    places = [worker * each + min(worker, more) for worker in range(workers)]
    return [_cut(*line[place], tiles, cost, least) for place in places] + [(len(tiles), 0)]


def _cut(row, at, rows, cost, least):
    """A cut moved to an end of its row where it is too near to it."""
    count, tile = rows[row], at - cost
    if least <= tile <= count - least:
        return row, tile
    to_end = 2 * tile >= count if count < 2 * least else tile > count - least
    return (row + 1, 0) if to_end and count else (row, 0)


def deal(tiles, most, share, cost, least):
    """The pieces of each worker. `tiles`: of each sequence."""
    dealt = []
    for (row, tile), (end, end_tile) in pairwise(cuts(tiles, most, share, cost, least)):
        mine = []
        while (row, tile) < (end, end_tile):
            mine.append(Piece(row, tile, end_tile if row == end else tiles[row]))
            row, tile = row + 1, 0
        dealt.append(mine)
    return dealt
