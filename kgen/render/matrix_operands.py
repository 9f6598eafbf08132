"""Where the operands K, V and O of the products lie in the registers of a lane, as C++ expressions.

What a lane reads of K or V is a few tokens, a vector of dims of each; an operand takes elements of those
vectors. Everything is checked against the tables of the plan: what is no sum over bits, or differs from lane
to lane, is a fault (K336).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kgen.diagnostics import Diagnostic, KgenError
from kgen.render.places import Place, place
from kgen.targets.matrix import Fragment
from kgen.variants.loads import ScoreLoads, ValueLoads, key_fragment, value_fragment
from kgen.variants.products import Products

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class KeyForm:
    """K in registers. Of a tile of scores a lane reads `slots` tokens."""

    slots: int
    token: Place  # lane, tile * slots + slot -> token
    slot: Place  # e -> slot of an element of the operand
    at: Place  # step, e -> element of the vector


@dataclass(frozen=True)
class ValueForm:
    """V in registers. For an operand a lane reads `tokens` tokens; `tiles` tiles of output share them."""

    tokens: int
    tiles: int
    token: Place  # lane, operand, slot -> token
    slot: Place  # e -> slot of an element of the operand
    at: Place  # tile, e -> element of the vector


@dataclass(frozen=True)
class OutForm:
    """O in registers. Register e of a tile is of row slot `slot(e)`. Over the tiles of a chunk a lane holds a
    vector of dims from `dim(lane, e)` on, those of `columns` registers of a tile before those of the next:
    `register(e, i)` is the i-th of them, and e itself for i = 0."""

    columns: int
    slot: Place  # e -> slot
    dim: Place  # lane, e -> first dim of the vector
    register: Place  # e, i -> e


def key_form(plan: Products, scores: ScoreLoads, made: Maker) -> KeyForm:
    """K as `scores` loads it. Raises KgenError (K336), as all of these do."""
    key = key_fragment(plan.instruction, plan.operands)
    rows, slot_of = slots_of(key)
    return KeyForm(
        slots=len(rows),
        token=made.place(
            {"lane": key.wave, "tile": plan.operands.accumulators * len(rows)},
            lambda at, tile: tile // len(rows) * key.rows + rows[tile % len(rows)][at],
        ),
        slot=made.place({"e": key.elements}, lambda e: slot_of[e]),
        at=made.place({"step": scores.steps, "e": key.elements}, lambda s, e: made.dim_at(key, scores, s, e)),
    )


def value_form(plan: Products, values: ValueLoads, made: Maker) -> ValueForm:
    """V as `values` loads it."""
    operands = plan.operands
    value = value_fragment(plan.instruction, operands)
    rows, slot_of = slots_of(value)
    return ValueForm(
        tokens=len(rows),
        tiles=values.tiles,
        token=made.place(
            {"lane": value.wave, "operand": operands.operands, "e": len(rows)},
            lambda at, o, slot: operands.tokens[o * value.rows + rows[slot][at]],
        ),
        slot=made.place({"e": value.elements}, lambda e: slot_of[e]),
        at=made.place(
            {"tile": values.tiles, "e": value.elements},
            lambda tile, e: made.agreed(
                values.dims[tile][cells[e][1]] - start
                for cells, start in zip(value.cells, values.starts, strict=True)
            ),
        ),
    )


def out_form(output: Fragment, values: ValueLoads, rows: Rows, made: Maker) -> OutForm:
    """O, (query, column), by the dims `values` gives its columns; `rows`: of the scores, by `slots_of`."""
    slots = made.same_rows(output, rows)
    columns = values.vector // values.tiles
    first = [tuple(values.dims[0][lane[e][1]] for lane in output.cells) for e in range(output.elements)]
    groups: dict[tuple[object, ...], list[int]] = {}  # by row slot and by where the vector starts
    for e in range(output.elements):
        start = tuple(dim - dim % values.vector for dim in first[e])
        groups.setdefault((slots[e], start), []).append(e)
    order = {e: sorted(group, key=lambda one: first[one]) for group in groups.values() for e in group}
    for e, group in order.items():
        offsets = [{dim - own for dim, own in zip(first[one], first[group[0]], strict=True)} for one in group]
        if offsets != [{i} for i in range(columns)]:
            raise made.fault(f"register {e} of the output does not lie beside those of its dims")
    return OutForm(
        columns=columns,
        slot=made.place({"e": output.elements}, lambda e: slots[e]),
        dim=made.place(
            {"lane": output.wave, "e": output.elements},
            lambda at, e: values.dims[0][output.cells[at][order[e][0]][1]],
        ),
        register=made.place({"e": output.elements, "i": columns}, lambda e, i: order[e][i]),
    )


def slots_of(fragment: Fragment) -> tuple[Rows, tuple[int, ...]]:
    """The distinct rows a lane holds, each as a table over lanes, and which of them each element is of."""
    tables = [tuple(lane[e][0] for lane in fragment.cells) for e in range(fragment.elements)]
    rows = tuple(dict.fromkeys(tables))
    return rows, tuple(rows.index(table) for table in tables)


class Maker:
    """Places of one plan; what is no sum over bits, or differs from lane to lane, is a fault."""

    def __init__(self, plan: Products) -> None:
        self._plan = plan

    def fault(self, why: str) -> KgenError:
        return no_form(self._plan, why)

    def place(self, extents: dict[str, int], value: Callable[..., int]) -> Place:
        found = place(extents, value)
        if found is None:
            raise self.fault(f"its places over {', '.join(extents)} are no sums over bits")
        return found

    def same_rows(self, output: Fragment, rows: Rows) -> tuple[int, ...]:
        """For each element of the output the slot whose row it is of, in every lane."""
        tables = [tuple(lane[e][0] for lane in output.cells) for e in range(output.elements)]
        if any(table not in rows for table in tables):
            raise self.fault("row statistics do not lie with the rows of the output")
        return tuple(rows.index(table) for table in tables)

    def shared_lanes(self, rows: Rows) -> tuple[int, int]:
        """The range of lane bits, as powers of two, in which lanes may differ and share every row."""
        wave = len(rows[0])
        bits = [1 << n for n in range(wave.bit_length() - 1)]
        free = [
            bit for bit in bits if all(row[lane] == row[lane ^ bit] for row in rows for lane in range(wave))
        ]
        if free != [bit for bit in bits if free and free[0] <= bit <= free[-1]]:
            raise self.fault("the lanes that share a row are not neighbours")
        return (free[0], free[-1] * 2) if free else (1, 1)

    def dim_at(self, operand: Fragment, scores: ScoreLoads, step: int, e: int) -> int:
        """The element of a lane's vector of Q or K that element `e` of the operand is at a step."""
        at = self.agreed(
            scores.dims[step][cells[e][1]] - start
            for cells, start in zip(operand.cells, scores.starts, strict=True)
        )
        if not 0 <= at < scores.vector:
            raise self.fault("Q and K do not share their 16-byte loads")
        return at

    def agreed(self, values: Iterable[int]) -> int:
        """What is the same in every lane."""
        distinct = set(values)
        if len(distinct) != 1:
            raise self.fault("lanes take different elements of what they read")
        return distinct.pop()


def no_form(plan: Products | None, why: str) -> KgenError:
    name = plan.instruction.name if plan else "this target"
    return KgenError(Diagnostic("K336", f"the products by {name} cannot be printed: {why}"))
