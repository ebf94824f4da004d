"""The queries of a workload as arrays of units: what is placed is a whole fragment, or a single operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.placement.simulated.kernel import OPERATOR, STREAMS, UNIT, Records
from lab.placement.simulated.workload import DrawnQuery, Setting, Work, Workload

_NANOSECOND = 1e-9


@dataclass(frozen=True, slots=True)
class Units:
    """Tables for the compiled loops (see kernel.py), and what those who decide need to know of each unit."""

    operators: Records
    table: Records
    streams: Records
    beginning: NDArray[np.int64]
    native: tuple[int, ...]
    state: tuple[float, ...]
    stream: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...]
    paths: tuple[tuple[int, int], ...]
    """The query and the stream of each path."""

    @property
    def number(self) -> int:
        return len(self.native)


class _Unit(NamedTuple):
    stream: int
    operators: list[tuple[int, Work]]
    state: float
    begins: int


def units(workload: Workload, *, split: bool = False) -> Units:
    """The units of all queries. With `split` every operator is one of its own."""
    made: list[_Unit] = []
    links: list[tuple[int, int]] = []
    paths: list[tuple[int, int]] = []
    operators = 0
    for number, query in enumerate(workload.queries):
        places: list[dict[int, tuple[int, int]]] = []
        for fragment in query.fragments:
            stream = int(str(fragment.stream))
            numbered = [(operators + at, query.work[str(name)]) for at, name in enumerate(fragment.operators[1:])]
            operators += len(numbered)
            states = [_state(workload.setting, query, str(name)) for name in fragment.operators[1:]]
            parts = [[at] for at in range(len(numbered))] if split else [list(range(len(numbered)))]
            where: dict[int, tuple[int, int]] = {}
            for part in parts:
                where |= {at: (len(made), position) for position, at in enumerate(part)}
                begins = len(paths) if part[0] == 0 else -1
                kept = [numbered[at] for at in part]
                made.append(_Unit(stream, kept, sum(states[at] for at in part), begins))
            paths.append((number, stream))
            places.append(where)
        links += _links(query, places, split)
    return _arranged(workload, made, links, paths)


def _state(setting: Setting, query: DrawnQuery, name: str) -> float:
    """The bytes that an operator keeps: all that came within its window."""
    return query.rates.get(name, 0.0) * query.work[name].window * setting.row_bytes


def _links(query: DrawnQuery, places: list[dict[int, tuple[int, int]]], split: bool) -> list[tuple[int, int]]:
    """For each unit, in order, the unit and the position that its rows go to. The access is no operator here, so
    positions are one less than in the fragment."""
    found = []
    for fragment, where in zip(query.fragments, places, strict=True):
        inner = [where[at] for at in range(1, len(where))] if split else []
        after = (-1, 0) if fragment.downstream is None else places[fragment.downstream][fragment.enters - 1]
        found += [*inner, after]
    return found


def _arranged(
    workload: Workload, made: list[_Unit], links: list[tuple[int, int]], paths: list[tuple[int, int]]
) -> Units:
    delegates = workload.delegates
    begins: list[list[int]] = [[] for _ in delegates]
    for number, unit in enumerate(made):
        if unit.begins >= 0:
            begins[unit.stream].append(number)
    neighbours: list[list[int]] = [[] for _ in made]
    for number, (after, _) in enumerate(links):
        if after >= 0:
            neighbours[number].append(after)
            neighbours[after].append(number)
    return Units(
        operators=_operators([each for unit in made for each in unit.operators]),
        table=_table(made, links, delegates),
        streams=_streams(workload, [len(each) for each in begins]),
        beginning=np.array([number for each in begins for number in each], np.int64),
        native=tuple(delegates[unit.stream] for unit in made),
        state=tuple(unit.state for unit in made),
        stream=tuple(unit.stream for unit in made),
        neighbours=tuple(tuple(each) for each in neighbours),
        paths=tuple(paths),
    )


def _operators(numbered: list[tuple[int, Work]]) -> Records:
    table = np.zeros(len(numbered), OPERATOR)
    table["cost"] = [round(work.seconds / _NANOSECOND) for _, work in numbered]
    table["attribute"] = [-1 if work.attribute is None else work.attribute for _, work in numbered]
    table["passes"] = np.array([int(work.selectivity * 2**64) for _, work in numbered], np.uint64)
    table["identity"] = [number for number, _ in numbered]
    return table


def _table(made: list[_Unit], links: list[tuple[int, int]], delegates: tuple[int, ...]) -> Records:
    table = np.zeros(len(made), UNIT)
    ends = np.cumsum([len(unit.operators) for unit in made])
    table["first"][1:] = ends[:-1]
    table["last"] = ends
    table["downstream"], table["enters"] = [after for after, _ in links], [position for _, position in links]
    table["path"], table["stream"] = [unit.begins for unit in made], [unit.stream for unit in made]
    table["at"], table["ready"] = [delegates[unit.stream] for unit in made], 1
    table["leaving"] = table["kept_first"] = table["kept_last"] = -1
    table["state"] = [unit.state for unit in made]
    return table


def _streams(workload: Workload, sizes: list[int]) -> Records:
    table = np.zeros(len(sizes), STREAMS)
    ends = np.cumsum(sizes)
    table["first"][1:] = ends[:-1]
    table["last"] = ends
    table["delegate"], table["rate"] = workload.delegates, workload.setting.rate
    return table
