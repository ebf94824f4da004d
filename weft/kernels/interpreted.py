"""Cells for functions that are not compiled: a memory is a record of arrays, one row for each cell."""

from __future__ import annotations

from weft.kernels.statistic import Columns, Statistic, same_records


class Interpreted:
    """The functions of `cells`, on the arrays of a statistic, by the statistic's own `combine` and `inverse`.

    A carry, where there is one, only takes in late rows: rounding errors are lost, and the kernels' fresh sums bound
    them.
    """

    def __init__(self, statistic: Statistic, width: int, carry: int) -> None:
        self.statistic = statistic
        self.width = width
        self.carry = carry
        self.exact = statistic.exact

    def combine(self, to: Columns, dst: int, left: Columns, a: int, right: Columns, b: int) -> None:
        self._write(to, dst, self.statistic.combine(_row(left, a), _row(right, b)))

    def copy(self, to: Columns, dst: int, source: Columns, a: int) -> None:
        self._write(to, dst, _row(source, a))

    def begin(self, cells: Columns, acc: int, source: Columns, a: int) -> None:
        self.copy(cells, acc, source, a)
        if self.carry:
            self._write(cells, acc + self.carry, self.statistic.empty(self.width))

    def adopt(self, cells: Columns, acc: int, other: int) -> None:
        self.copy(cells, acc, cells, other)
        if self.carry:
            self.copy(cells, acc + self.carry, cells, other + self.carry)

    def extend(self, cells: Columns, acc: int, other: int, source: Columns, a: int) -> None:
        self.combine(cells, acc, cells, other, source, a)
        if self.carry and acc != other:
            self.copy(cells, acc + self.carry, cells, other + self.carry)

    def lose(self, cells: Columns, acc: int, source: Columns, a: int) -> None:
        self._write(cells, acc, self._inverse(_row(cells, acc), _row(source, a)))

    def swap(self, cells: Columns, acc: int, source: Columns, a: int, old: int) -> None:
        self.combine(cells, acc, cells, acc, source, a)
        self.lose(cells, acc, cells, old)

    def settle(self, to: Columns, dst: int, cells: Columns, acc: int) -> None:
        self._write(to, dst, self._value(cells, acc))

    def between(self, to: Columns, dst: int, cells: Columns, newer: int, older: int) -> None:
        self._write(to, dst, self._inverse(self._value(cells, newer), self._value(cells, older)))

    def displaces(self, new: Columns, a: int, old: Columns, b: int, key: int) -> bool:
        older, newer = (
            tuple(column[cell, key : key + 1] for column in memory) for memory, cell in ((old, b), (new, a))
        )
        return same_records(self.statistic.combine(older, newer), newer)

    def put(self, to: Columns, dst: int, source: Columns, a: int, key: int) -> None:
        for column, its in zip(to, source, strict=True):
            column[dst, key] = its[a, key]

    def _value(self, cells: Columns, acc: int) -> Columns:
        value = _row(cells, acc)
        return self.statistic.combine(value, _row(cells, acc + self.carry)) if self.carry else value

    def _inverse(self, total: Columns, part: Columns) -> Columns:
        assert self.statistic.inverse is not None
        return self.statistic.inverse(total, part)

    @staticmethod
    def _write(to: Columns, dst: int, record: Columns) -> None:
        for column, values in zip(to, record, strict=True):
            column[dst] = values


def _row(memory: Columns, cell: int) -> Columns:
    return tuple(column[cell] for column in memory)
