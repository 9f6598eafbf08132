"""Even shares worked out slowly: what kernels do with a few divisions, as lists."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Piece:
    """Tiles [first, last) of a row, which one worker takes."""

    seq: int
    first: int
    last: int


def cuts(tiles, most, share, cost, least, enough):
    """Where each worker's share begins and the last one ends: (row, tile), rows in the order of the line.

    `enough`: so many shares do where all rows are alike.
    """
    line = [(row, at) for row, count in enumerate(tiles) for at in range(cost + count)]
    if not line:
        return []
    workers = max(1, min(len(line) // share, most))
    places = _alike(tiles, cost, workers, min(enough, workers)) if len(set(tiles)) == 1 else None
    if places is None:
        places = _split(len(line), workers)
    return [_cut(*line[place], tiles, cost, least) for place in places] + [(len(tiles), 0)]


def _split(length, workers):
    each, more = divmod(length, workers)
    return [worker * each + min(worker, more) for worker in range(workers)]


def _alike(tiles, cost, workers, enough):
    """Shares of rows that are alike, or None where these would not be even."""
    rows, row = len(tiles), cost + tiles[0]
    if rows < enough:
        parts = workers // rows
        if rows * parts < enough:
            return None
        return [number * row + place for number in range(rows) for place in _split(row, parts)]
    together = -(-rows // workers)
    count = -(-rows // together)
    if 32 * rows < 31 * together * count or count < enough:
        return None
    return [number * together * row for number in range(count)]


def _cut(row, at, rows, cost, least):
    """A cut moved to an end of its row where it is too near to it."""
    count, tile = rows[row], at - cost
    if least <= tile <= count - least:
        return row, tile
    to_end = 2 * tile >= count if count < 2 * least else tile > count - least
    return (row + 1, 0) if to_end and count else (row, 0)


def deal(tiles, most, share, cost, least, enough):
    """The pieces of each worker. `tiles`: of each sequence."""
    dealt = []
    for (row, tile), (end, end_tile) in pairwise(cuts(tiles, most, share, cost, least, enough)):
        mine = []
        while (row, tile) < (end, end_tile):
            mine.append(Piece(row, tile, end_tile if row == end else tiles[row]))
            row, tile = row + 1, 0
        dealt.append(mine)
    return dealt
