"""Schedules of aggregates and windows of joins, for many subscriptions and rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.delivery.matching.places import ranks_of
from weft.plan.subscription import Meeting, Schedule

Numbers = npt.NDArray[np.int64]
Held = npt.NDArray[np.bool_]
Condition = TypeVar("Condition", Meeting, Schedule)


class _ByColumns(Generic[Condition]):
    """Conditions of legs, those that read the same columns together."""

    def __init__(self, conditions: Sequence[Condition | None]) -> None:
        names = [() if each is None else self._columns(each) for each in conditions]
        self._kinds: list[tuple[str, ...]] = list(dict.fromkeys(names))
        self._kind: Numbers = np.array([self._kinds.index(each) for each in names], dtype=np.int64)
        zero: list[int] = [0] * max((len(each) for each in self._kinds), default=0)
        numbers = [[1, 0, *zero] if each is None else self._numbers(each, zero) for each in conditions]
        self._parameters = np.array(numbers, dtype=np.int64).reshape(len(conditions), len(zero) + 2)

    def held(self, rows: pa.RecordBatch, legs: Numbers, at: Numbers) -> Held:
        """Whether the condition of each leg holds for the row beside it."""
        held = np.ones(len(legs), dtype=bool)
        kinds = self._kind[legs]
        for number, names in enumerate(self._kinds):
            if names and len(mine := np.flatnonzero(kinds == number)):
                clocks = [rows.column(name) for name in names]
                there = ~np.any([np.asarray(each.is_null()) for each in clocks], axis=0)
                values = np.stack([ranks_of(each) for each in clocks])
                rows_of_mine = at[mine]
                held[mine] = there[rows_of_mine] & self._hold(values[:, rows_of_mine], self._parameters[legs[mine]])
        return held

    def _columns(self, condition: Condition) -> tuple[str, ...]:
        raise NotImplementedError

    def _numbers(self, condition: Condition, zero: list[int]) -> list[int]:
        raise NotImplementedError

    def _hold(self, values: Numbers, parameters: Numbers) -> Held:
        raise NotImplementedError


class Schedules(_ByColumns[Schedule]):
    """Window ends at origin + k · slide."""

    def _columns(self, condition: Schedule) -> tuple[str, ...]:
        return (condition.column,)

    def _numbers(self, condition: Schedule, zero: list[int]) -> list[int]:
        return [condition.slide, condition.origin % condition.slide, *zero]

    def _hold(self, values: Numbers, parameters: Numbers) -> Held:
        held: Held = values[0] % parameters[:, 0] == parameters[:, 1]
        return held


class Meetings(_ByColumns[Meeting]):
    """Rows that are together in their windows at the first instant origin + k · slide that is not before the newest."""

    def _columns(self, condition: Meeting) -> tuple[str, ...]:
        return tuple(sorted(name for name, _ in condition.ranges))

    def _numbers(self, condition: Meeting, zero: list[int]) -> list[int]:
        ranges = [min(range_, 2**63 - 1) for _, range_ in sorted(condition.ranges)]
        return [condition.slide, condition.origin % condition.slide, *ranges, *zero[len(ranges) :]]

    def _hold(self, values: Numbers, parameters: Numbers) -> Held:
        slide, origin = parameters[:, 0], parameters[:, 1]
        newest = values.max(axis=0)
        until_instant = (origin - newest % slide) % slide
        # Clocks may be 2⁶³ apart, which is one more than 64 bits with a sign can tell.
        ages = (newest.view(np.uint64) - values.view(np.uint64)) + until_instant.astype(np.uint64)
        ranges = parameters[:, 2 : 2 + len(values)].T.astype(np.uint64)
        held: Held = (ages < ranges).all(axis=0)
        return held
