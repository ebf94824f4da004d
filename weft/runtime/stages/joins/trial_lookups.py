"""What joins would meet that do not run: a sample of new rows is tried on rows that are held.

    runs           (a x b) x c, by b.p = c.p        looks c up for those rows of b that have met an a
    would run      b x c                            looks c up for every row of b

How many pairs of b and c there are decides whether the second order is better, and the first one does not tell: rows of
b that meet an a may meet more rows of c than others do, or fewer. To go by them leads from one order to the other and
back, for each lets through what the other one takes to be rare. So some new rows of b are looked up among the rows of c
that the driver holds, as they come. Nothing is put together: pairs are counted by where they begin and end.

It needs rows in the driver, and a key that compares one leg of a join with one log. Of other joins that do not run,
what the ones that do let through is all that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from weft.arrays.ordinals import Positions
from weft.plan.log_ids import LogId
from weft.runtime.stages.joins.join_groups import band_between
from weft.runtime.stages.joins.join_index import Lookup, LookupKey
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.stages.joins.prepared import PreparedGroup
from weft.runtime.stages.joins.probes import NewRows, lookup_key_of
from weft.runtime.stages.joins.row_checks import clock_of, column_of

#: So many new rows of a log are tried in a cycle.
TRIED = 2_048


@dataclass(frozen=True)
class TrialLookup:
    """New rows of one log that were looked up among those of another: the pairs that were found, of so many."""

    #: The join that looks up by the same key.
    join: PreparedGroup
    pairs: int
    possible: int


def trial_lookups(network: NetworkPass, before: Mapping[LogId, int]) -> Iterator[TrialLookup]:
    """Try new rows on joins that do not run, after a cycle whose rows are held already.

    `before` says how many rows of each log had come before it that were kept or could have been.
    """
    groups = {each.group.name: each for each in network.groups}
    for join in network.groups:
        way = _key_of_leg(join)
        if way is None:
            continue
        rows, looked_in = groups[join.group.legs[way.leg]], join.sides[1 - way.side]
        new, held = network.fresh.get(rows.group.name), network.state.held.get(looked_in.group.name)
        if new is not None and held is not None and way.column in new.table.column_names:
            tried = _some(np.flatnonzero(new.membership.in_any(rows.group.feeding)))
            pairs = held.count(_lookup(new, tried, way), way.key)
            possible = round(len(tried) * _rows_read(network, join, 1 - way.side, before))
            if possible:
                yield TrialLookup(join, pairs, possible)


def _some(rows: Positions) -> Positions:
    """Rows that stand for all of them."""
    return rows[:: -(-len(rows) // TRIED) or 1]


def _lookup(new: NewRows, rows: Positions, way: _KeyOfLeg) -> Lookup:
    """What rows of a log are looked up by; those without a key find nothing."""
    numbers, present = new.keys.of((way.column,))
    with_key = rows[present[rows]]
    return Lookup(numbers[with_key], np.asarray(new.table[clock_of(0)])[with_key], *way.bounds)


def _rows_read(network: NetworkPass, join: PreparedGroup, side: int, before: Mapping[LogId, int]) -> float:
    """How many rows of a side's log have come, this cycle's among them, that a join reads: by those of this cycle."""
    log = join.sides[side].group.name
    arrived, new = network.arrived.get(log, 0), network.fresh.get(log)
    read = int(new.membership.in_any(join.group.parents(side)).sum()) if new is not None else 0
    share = read / arrived if arrived else 1.0
    return share * (before.get(log, 0) + arrived)


@dataclass(frozen=True)
class _KeyOfLeg:
    """How rows of a leg are looked up by a join's key: the side that the leg is on, and its own column of the key."""

    side: int
    leg: int
    column: str
    key: LookupKey
    bounds: tuple[int | None, int | None]


def _key_of_leg(prepared: PreparedGroup) -> _KeyOfLeg | None:
    """The way from one leg of a join below to the log beside it, if the key is about that leg alone."""
    if prepared.on_executors or len(prepared.group.keys) != 1:
        return None
    sides = [number for number, side in enumerate(prepared.sides) if side.sides]
    if len(sides) != 1:
        return None
    (side,) = sides
    looked_in = prepared.sides[1 - side]
    (name,) = prepared.key_columns[side]
    leg_name, _, local = name.removeprefix("t").partition("_")
    if looked_in.group.name.is_table or not leg_name.isdigit():
        return None
    leg, other = int(leg_name) + prepared.group.first_legs[side], prepared.group.first_legs[1 - side]
    if prepared.group.legs[leg].is_table:
        return None
    band = band_between(leg, other, prepared.uses)
    bounds = (None, None) if band is None else (band.low, band.high)
    return _KeyOfLeg(side, leg, column_of(0, local), lookup_key_of(prepared, 1 - side), bounds)
