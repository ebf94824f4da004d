"""What a cycle tells about the sizes of logs, nodes and joins: counts of what was done anyway.

    rows of logs         how many arrived, and how many are kept
    nodes                how many of the combinations of rows that became possible in the cycle are in each of them
    joins                how many pairs were looked at, and how many rows of either side took part
    joins that might     how many pairs a sample of new rows would meet among those that the driver holds
    conditions           how many rows of a log, or how many of the pairs that were looked at, satisfy each of them
    keys                 how many values their columns have

Counting costs as much as there are conditions and kinds of rows (`weft/predicates/row_matching.py`). If there are very
many conditions they take turns. Of a log whose rows Spark selects from, a sample says what the other rows are like.

With k rows of a log before and n new ones, n combinations of one leg have become possible; of several legs, as many as
there are now, less those that there were.

Why joins that do not run are tried as well is in `docs/adaptation.md` ("The same in an engine"). Nothing is put
together for it: pairs are counted by where they begin and end. It needs a key that compares one leg of a join with one
log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Column
from weft.optimizer.network.sizes import MeasuredSizes, SizeKey, SizeKind, in_turn, share_known
from weft.optimizer.network.wanted import legs_read
from weft.plan.log_ids import LogId
from weft.plan.network import Network
from weft.predicates.clauses import Disjunction
from weft.predicates.operations import Renaming
from weft.runtime.stages.joins.join_groups import JoinGroup, JoinGroups, band_between
from weft.runtime.stages.joins.lookups import Lookup, NewRows, lookup_key_of
from weft.runtime.stages.joins.network_pass import NetworkPass
from weft.runtime.stages.joins.row_checks import Columns, clock_of, column_of, conjunction_of

#: How many of the least numbers are kept: the count is off by about six percent.
KEPT_HASHES = 256
#: After how many cycles counting begins again.
_AFRESH = 32

_ALL = float(1 << 64)


@dataclass
class DistinctCount:
    """The values of one column, counted by their least hashes.

    Hashes are spread evenly over 64 bits: of n such numbers the k-th smallest lies near k/n of the way up. Now and then
    counting begins again, so that values which come no more are not counted for ever; meanwhile the count of before
    stands.
    """

    _least: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _before: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _cycles: int = 0

    def add(self, numbers: NDArray[np.uint64]) -> None:
        """Take in the numbers of a cycle's values."""
        if self._cycles == _AFRESH:
            self._before, self._least, self._cycles = self._least, self._least[:0], 0
        self._cycles += 1
        if len(self._least) == KEPT_HASHES:
            numbers = numbers[numbers < self._least[-1]]
        if len(numbers):
            self._least = np.unique(np.concatenate([self._least, numbers]))[:KEPT_HASHES]

    @property
    def count(self) -> float:
        """About how many different values there were."""
        least = np.unique(np.concatenate([self._least, self._before]))[:KEPT_HASHES]
        return float(len(least)) if len(least) < KEPT_HASHES else (KEPT_HASHES - 1) * _ALL / (float(least[-1]) + 1)


#: How many conditions, and how many nodes, of one group are counted in a cycle; more of them take turns.
BY_TURNS = 256
#: About how many rows of a log are a sample of all of them.
SAMPLE_ROWS = 2_048
#: Of how many columns the values are counted.
_COLUMNS = 256
#: The names of a group's conditions by the numbers of their clauses, and of its keys; each may have two.
_Conditions: TypeAlias = tuple[list[tuple[int, tuple[SizeKey, ...]]], list[tuple[SizeKey, ...]]]


class JoinStatistics:
    """Counts what cycles do, for the statistics that plans are made by."""

    def __init__(self, observed: MeasuredSizes) -> None:
        self.observed = observed
        #: Of each group of joins, in the last cycle: the pairs that it looked at, and those that are in a node.
        self.pairs: dict[str, tuple[int, int]] = {}
        #: By group the nodes of either side that it joined when it was last counted.
        self._joined: dict[str, tuple[frozenset[int], ...]] = {}
        self._renaming = Renaming()
        self._conditions: dict[JoinGroup, _Conditions] = {}
        self._values: dict[tuple[str, str], DistinctCount] = {}

    def name_nodes(self, network: Network, groups: JoinGroups) -> None:
        """The network is another one: sizes of its nodes are known by what they compute."""
        self.observed.nodes = {
            number: SizeKey(SizeKind.NODE, node.legs, str(groups.numbers[number]))
            for number, node in network.nodes.items()
            if node.parents
        }
        self._renaming.forget()
        self._conditions.clear()

    def sampling(self) -> dict[str, int]:
        """For each log how many rows come for one of the sample."""
        new = [known for known in self.observed if known.kind is SizeKind.NEW]
        steps = {known.logs[0]: self.observed.step(known) for known in new}
        return {log: max(1, int(rows) // SAMPLE_ROWS) for log, rows in steps.items() if rows is not None}

    def see(self, network: NetworkPass) -> None:
        """Count what a cycle has done."""
        before = {log: sum(each.all_rows for each in segments) for log, segments in network.last.logs.items()}
        arrived, cycle = network.arrived, network.cycle

        def combinations(legs: Sequence[LogId]) -> int:
            known = [before.get(log, 0) for log in legs]
            return prod(rows + arrived.get(log, 0) for rows, log in zip(known, legs, strict=True)) - prod(known)

        for log in {leg for each in network.groups for leg in each.legs}:
            self.observed.see(SizeKey(SizeKind.NEW, (log,)), arrived.get(log, 0))
            self.observed.see(SizeKey(SizeKind.ROWS, (log,)), before.get(log, 0) + arrived.get(log, 0))
        counted: dict[SizeKey, tuple[int, int]] = {}
        derived: dict[SizeKey, float] = {}
        tried = self._tried(network, before)
        self.pairs = {}
        for each in network.groups:
            fresh, possible = network.fresh.get(each.name), combinations(each.legs)
            if possible:
                for node in in_turn(list(each.evaluator.nodes), cycle, BY_TURNS):
                    count = fresh.membership.count(node) if fresh is not None else 0
                    self.observed.see(SizeKey(SizeKind.NODE, each.legs, str(node)), count, possible)
                if each.sides:
                    sides = [combinations(side.legs) for side in each.sides]
                    for known, share in self._see_join(each, network, possible, sides).items():
                        # Rows that have met others already are not as good as rows as they come.
                        if each.level == 1 or known not in tried:
                            derived.setdefault(known, share)
                if fresh is not None:
                    self._count(counted, each, fresh, cycle)
        for known, (part, whole) in {**counted, **tried}.items():
            if known not in derived:
                self.observed.see(known, part, whole)
        for known, share in derived.items():
            self.observed.derive(known, share)
        self._see_values(network)

    def _see_join(
        self, group: JoinGroup, network: NetworkPass, possible: int, of_sides: Sequence[int]
    ) -> dict[SizeKey, float]:
        """Count the pairs that a join looked at, and say what share of all pairs its keys let through.

        What several keys let through together they are given equal parts in: for a join by all of them it makes no
        difference, and values that hang together, as an account and its bank, are not taken to be independent.
        """
        here = network.fresh.get(group.name)
        looked_at = len(here.membership) if here is not None else 0
        self.pairs[group.name] = looked_at, network.rows_in(group, group.evaluator.nodes)
        known = [SizeKey(kind, group.legs, group.name) for kind in (SizeKind.LOOKED_AT, SizeKind.LEFT, SizeKind.RIGHT)]
        joined = tuple(group.parents(number) for number in range(len(group.sides)))
        if self._joined.setdefault(group.name, joined) != joined:
            # Of other rows, another share is looked at: one of the old and one of the new would say nothing together.
            self._joined[group.name] = joined
            for each in known:
                self.observed.forget(each)
        self.observed.see(known[0], looked_at, possible)
        for number, (side, of_side) in enumerate(zip(group.sides, of_sides, strict=True)):
            if of_side:
                self.observed.see(known[1 + number], network.rows_in(side, group.parents(number)), of_side)
        shares = [self.observed.value(each) for each in known]
        _, keys = self._conditions_of(group)
        if not keys or shares[0] is None or shares[1] is None or shares[2] is None:
            return {}
        let_through = min(1.0, shares[0] / (shares[1] * shares[2])) ** (1 / len(keys))
        return {name: let_through for names in keys for name in names}

    def _tried(self, network: NetworkPass, before: Mapping[LogId, int]) -> dict[SizeKey, tuple[int, int]]:
        """The pairs that joins would meet which do not run, of how many, by the names of their keys."""
        return {
            name: (pairs, possible)
            for join, pairs, possible in trial_lookups(network, before)
            for names in self._conditions_of(join)[1]
            for name in names
        }

    def _count(self, counted: dict[SizeKey, tuple[int, int]], group: JoinGroup, fresh: NewRows, cycle: int) -> None:
        """Count how many rows satisfy each condition, of how many.

        What the rows of a log have told of themselves, their pairs do not tell better.
        """
        of_logs = {known for known in counted if len(known.logs) == 1}
        chosen = in_turn(self._conditions_of(group)[0], cycle, BY_TURNS)
        rows = len(fresh.membership) if fresh.sample is None else int(fresh.sample.sum())
        if rows:
            counts = fresh.membership.satisfying([number for number, _ in chosen], fresh.sample)
            for (_, names), count in zip(chosen, counts, strict=True):
                for name in names:
                    if name not in of_logs:
                        part, whole = counted.get(name, (0, 0))
                        counted[name] = part + count, whole + rows

    def _conditions_of(self, group: JoinGroup) -> _Conditions:
        if group in self._conditions:
            return self._conditions[group]
        numbers = group.evaluator.clauses
        keys = {key.text: None for key in group.keys}
        clauses: dict[int, tuple[SizeKey, ...]] = {}
        names_of_keys: dict[str, tuple[SizeKey, ...]] = {}
        # Names of columns follow from what they hold: the group's own are not touched.
        columns = Columns(group.columns.legs)
        for member in group.nodes.values():
            conjunction = conjunction_of(member.predicates, columns)
            for condition, clause in zip(member.predicates.disjunctions, conjunction, strict=True):
                if clause in numbers and condition.sources:
                    names = tuple(self._names(condition, group.legs))
                    if condition.text in keys:
                        names_of_keys[condition.text] = names
                    else:
                        clauses[numbers[clause]] = names
        found = self._conditions[group] = list(clauses.items()), list(names_of_keys.values())
        return found

    def _names(self, condition: Disjunction, legs: Sequence[str]) -> Iterator[SizeKey]:
        """What a condition is called: over its legs in their order, and if there are two, the other way round too."""
        read = legs_read(condition)
        for order in dict.fromkeys((read, read[::-1])) if len(read) == 2 else (read,):
            yield share_known(condition, legs, order, self._renaming)

    def _see_values(self, network: NetworkPass) -> None:
        """Count the values of columns of logs that joins look rows up by."""
        columns: dict[tuple[LogId, str], tuple[NewRows, str]] = {}
        for each in network.groups:
            for number, side in enumerate(each.sides):
                fresh = network.fresh.get(side.name)
                for key in each.keys if fresh is not None and not side.sides else ():
                    expression = (key.left, key.right)[number]
                    if fresh is not None and isinstance(expression, Column):
                        name = column_of(*side.columns.place_of(expression, -each.first_legs[number]))
                        if name in fresh.table.column_names:
                            columns.setdefault((side.name, expression.name), (fresh, name))
        for of, (fresh, name) in columns.items():
            if len(self._values) < _COLUMNS or of in self._values:
                numbers, present = fresh.keys.of_column(name)
                values = self._values.setdefault(of, DistinctCount())
                values.add(numbers[present])
                if values.count:
                    self.observed.see(SizeKey(SizeKind.VALUES, of[:1], of[1]), values.count)


#: How many new rows of a log are tried in a cycle.
TRIED = 2_048


def trial_lookups(network: NetworkPass, before: Mapping[LogId, int]) -> Iterator[tuple[JoinGroup, int, int]]:
    """Try new rows on joins that do not run, after a cycle whose rows are held already.

    Gives the join that looks up by the same key, the pairs that were found, and how many were possible. `before` says
    how many rows of each log had come before the cycle that were kept or could have been.
    """
    groups = {each.name: each for each in network.groups}
    for join in network.groups:
        key = _key_of_leg(join)
        if key is None:
            continue
        side, leg, column = key
        rows, log = groups[join.legs[leg]], join.sides[side].name
        new, held = network.fresh.get(rows.name), network.held.get(log)
        if new is None or held is None or column not in new.table.column_names:
            continue
        wanted = np.flatnonzero(new.membership.in_any(rows.feeding))
        tried = wanted[:: -(-len(wanted) // TRIED) or 1]
        numbers, present = new.keys.of((column,))
        # Rows without a key find nothing.
        with_key = tried[present[tried]]
        clocks = np.asarray(new.table[clock_of(0)])[with_key]
        band = band_between(leg, join.first_legs[side], join.uses)
        bounds = (None, None) if band is None else (band.low, band.high)
        pairs = held.count(Lookup(numbers[with_key], clocks, *bounds), lookup_key_of(join, side))
        # The join reads as large a share of the rows of a log as of those of this cycle.
        arrived = network.arrived.get(log, 0)
        share = network.rows_in(join.sides[side], join.parents(side)) / arrived if arrived else 1.0
        possible = round(len(tried) * share * (before.get(log, 0) + arrived))
        if possible:
            yield join, pairs, possible


def _key_of_leg(group: JoinGroup) -> tuple[int, int, str] | None:
    """The side of a log, and the leg of the join beside it that the key is about, if it is one, with its own column."""
    if group.on_executors or len(group.keys) != 1:
        return None
    sides = [number for number, side in enumerate(group.sides) if side.sides]
    if len(sides) != 1:
        return None
    (side,) = sides
    looked_in = group.sides[1 - side]
    (name,) = group.key_columns[side]
    leg_name, _, local = name.removeprefix("t").partition("_")
    if looked_in.name.is_table or not leg_name.isdigit():
        return None
    leg = int(leg_name) + group.first_legs[side]
    return None if group.legs[leg].is_table else (1 - side, leg, column_of(0, local))
