"""DISTINCT and the set operators over history (docs/semantics.md, "Rows without windows").

A snapshot remembers values: `side` 0 and 1 are the operands', side 2 those that the operator has let through; `_clock`
is the largest clock a value has had there. The rows of a cycle are taken in the order of their clocks, which Spark's
window functions express: what a row *finds* is a maximum over the rows before it, remembered ones first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra import Relation, Retain, Select, SetOperator
from weft.plan.event_time import Clock
from weft.runtime.columnar.rows import CLOCK, column, columns

_PASSED = 2
_BEFORE = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


@dataclass(frozen=True)
class History:
    """One operator in one cycle: the relation, the view of what it remembers, and the watermark before the cycle."""

    relation: Relation
    known: str | None
    watermark: Clock

    def emitted(self, operands: Sequence[str | None]) -> str:
        """The rows that the operator emits."""
        return f"SELECT {self._columns}{CLOCK} FROM ({self._passing(operands)}) WHERE isnew AND {self._is_unseen}"

    def remembered(self, operands: Sequence[str | None], watermark: Clock) -> str:
        """What is remembered after the cycle: every value's largest clock, as long as a row on time can find it."""
        side = f"CAST({_PASSED} AS INT) AS side"
        sources = [f"SELECT {self._columns}{CLOCK}, {side} FROM ({self._passing(operands)}) WHERE isnew"]
        if self.known is not None:
            sources.append(f"SELECT {self._columns}{CLOCK}, side FROM {self.known} WHERE side = {_PASSED}")
        if self._needs_sides:
            sources.append(f"SELECT {self._columns}{CLOCK}, side FROM ({self._rows(operands)})")
        listed = f"{self._columns}max({CLOCK}) AS {CLOCK}, side"
        everything = " UNION ALL ".join(sources)
        expired = ""
        if self._retain.ticks is not None and watermark is not None:
            expired = f" HAVING max({CLOCK}) > {watermark - self._retain.ticks}L"
        return f"SELECT {listed} FROM ({everything}) GROUP BY {self._columns}side{expired}"

    # UNION and DISTINCT look only at what has passed; INTERSECT and EXCEPT also at the operands.
    @property
    def _needs_sides(self) -> bool:
        return not isinstance(self.relation, Select) and self.relation.operator is not SetOperator.UNION

    @property
    def _retain(self) -> Retain:
        assert self.relation.retain is not None
        return self.relation.retain

    @property
    def _columns(self) -> str:
        return columns(self.relation.fields)

    @property
    def _values(self) -> str:
        return ", ".join(column(i) for i in range(len(self.relation.fields)))

    def _rows(self, operands: Sequence[str | None]) -> str:
        """The rows of the cycle that are on time, and those remembered, with their sides."""
        parts = [
            f"SELECT {self._columns}{CLOCK}, CAST({side} AS INT) AS side, true AS isnew FROM ({rows}){self._on_time}"
            for side, rows in enumerate(operands)
            if rows is not None
        ]
        if self.known is not None:
            parts.append(
                f"SELECT {self._columns}{CLOCK}, side, false AS isnew FROM {self.known} WHERE side < {_PASSED}"
            )
        return " UNION ALL ".join(parts)

    @property
    def _on_time(self) -> str:
        if self._retain.ticks is None or self.watermark is None:
            return ""
        return f" WHERE {CLOCK} >= {self.watermark}L"

    def _passing(self, operands: Sequence[str | None]) -> str:
        """Rows that the operator lets through before DISTINCT, and those it let through earlier, each with the largest
        clock its value has had among those before it (`seen`)."""
        rows = f"SELECT {self._columns}{CLOCK}, side, isnew FROM ({self._candidates(operands)}) WHERE isnew"
        if self.known is not None:
            passed = f"SELECT {self._columns}{CLOCK}, side, false AS isnew FROM {self.known} WHERE side = {_PASSED}"
            rows = f"{rows} UNION ALL {passed}"
        order = f"PARTITION BY {self._values} ORDER BY isnew, {CLOCK}, side"
        seen = f"max({CLOCK}) OVER ({order} {_BEFORE})"
        return f"SELECT *, {seen} AS seen FROM ({rows})"

    @property
    def _is_unseen(self) -> str:
        return f"NOT {self._finds('seen')}"

    def _finds(self, last: str) -> str:
        if self._retain.ticks is None:
            return f"({last} IS NOT NULL)"
        return f"coalesce({CLOCK} - {last} < {self._retain.ticks}L, false)"

    def _candidates(self, operands: Sequence[str | None]) -> str:
        rows = self._rows(operands)
        if not self._needs_sides:
            return rows
        relation = self.relation
        assert not isinstance(relation, Select)
        if relation.operator is SetOperator.EXCEPT:
            other = f"max(CASE WHEN side = 1 THEN {CLOCK} END) OVER (PARTITION BY {self._values})"
            kept = f"side = 0 AND NOT {self._finds('other')}"
            return f"SELECT * FROM (SELECT *, {other} AS other FROM ({rows})) WHERE {kept}"
        order = f"PARTITION BY {self._values} ORDER BY isnew, {CLOCK}, side {_BEFORE}"
        of_side = [f"max(CASE WHEN side = {side} THEN {CLOCK} END) OVER ({order})" for side in (0, 1)]
        other = f"CASE WHEN side = 0 THEN {of_side[1]} ELSE {of_side[0]} END"
        return f"SELECT * FROM (SELECT *, {other} AS other FROM ({rows})) WHERE {self._finds('other')}"
