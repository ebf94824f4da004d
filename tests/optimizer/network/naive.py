"""Selects and networks evaluated by trying every combination of rows: slow, and obviously right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeAlias

from tests.oracle_expressions import Scope, holds
from tests.oracle_windows import meet
from weft.algebra import Select, Value
from weft.algebra.properties import clock_column
from weft.plan.network import CLOCK, Network, Result
from weft.predicates.normal_forms import condition_of

#: A row of a log: its values by column, and its clock.
Row: TypeAlias = Mapping[str, Value]
#: The rows of each log; a combination is given by the positions of its rows.
Logs: TypeAlias = Mapping[str, Sequence[Row]]
Combination: TypeAlias = tuple[int, ...]


def selected(select: Select, names: Sequence[str], logs: Logs) -> Counter[Combination]:
    """The combinations that a select lets through, as positions of rows in the order of its inputs."""
    found: Counter[Combination] = Counter()
    for combination in product(*(range(len(logs[name])) for name in names)):
        rows = [logs[name][position] for name, position in zip(names, combination, strict=True)]
        values = {
            (item.alias, column): value
            for item, row in zip(select.inputs, rows, strict=True)
            for column, value in row.items()
        }
        clocks = [row[clock_column(item.source) or CLOCK] for item, row in zip(select.inputs, rows, strict=True)]
        if len(rows) > 1 and not meet(select.inputs, clocks):
            continue
        if holds(select.where, Scope(values)):
            found[combination] += 1
    return found


class Evaluated:
    """The rows of every node of a network."""

    def __init__(self, network: Network, logs: Logs) -> None:
        self._logs, self._network = logs, network
        self.rows: dict[int, list[Combination]] = {}
        for number, node in network.nodes.items():
            self.rows[number] = self._of(number) if node.parents else [(i,) for i in range(len(logs[node.legs[0]]))]

    def _of(self, number: int) -> list[Combination]:
        node = self._network.nodes[number]
        condition = condition_of(node.predicates)
        below = product(*(self.rows[parent] for parent in node.parents))
        found = []
        for parts in below:
            combination = tuple(position for part in parts for position in part)
            values = {
                (f"T{leg + 1}", column): value
                for leg, (log, position) in enumerate(zip(node.legs, combination, strict=True))
                for column, value in self._logs[log][position].items()
            }
            if holds(condition, Scope(values)):
                found.append(combination)
        return found

    def of(self, result: Result) -> Counter[Combination]:
        """What a select finds in its node, in the order of its own inputs."""
        return Counter(tuple(row[leg] for leg in result.legs) for row in self.rows[result.node])
