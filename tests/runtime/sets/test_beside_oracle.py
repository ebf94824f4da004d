"""Set operators inside queries: given what their operands emit in the oracle, they emit what it emits.

Watermarks, horizons and closing instances are those of the engine's own event_time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from subprocess import run

import pytest

from tests.oracle import BEGINNING, Row, StandingQuery
from tests.oracle_script import Script
from tests.oracle_values import row_key
from tests.runtime.sets.drawn import rows_of, table
from weft.algebra import Query, Select, Source
from weft.plan.event_time import Clock, EventTime, QueryStart, RunningQuery
from weft.runtime.stages.sets.set_operators import HistoryOperator, InstanceOperator

_VALUES = [(x, y) for x in ("a", "b", None) for y in (0.0, -0.0, float("nan"), None)]
_OPERATORS = ("UNION", "INTERSECT", "EXCEPT")


def random_query(random: Random, name: str) -> str:
    """A query whose last operator is one over history, or between instances."""
    streams = random.sample(["l", "r", "l"], 2)
    if random.random() < 0.5:
        window = random.choice(["[ROWS 10 SLIDE 10]", "[ROWS 12 SLIDE 5]", "[ROWS 3 SLIDE 7]", "[NOW]"])
        operands = [
            random.choice([f"SELECT x, y FROM {each} {window}", f"SELECT DISTINCT x, y FROM {each} {window}"])
            for each in streams
        ]
        if random.random() < 0.4:
            operands = [f"SELECT x, COUNT(*) AS c FROM {each} {window} GROUP BY x" for each in streams]
        body = f"{operands[0]} {random.choice(_OPERATORS)} {random.choice(['', 'ALL'])} {operands[1]}"
        if random.random() < 0.3:
            body = f"({body}) {random.choice(_OPERATORS)} {operands[0]}"
    else:
        retain = f"RETAIN {random.choice(['1', '4', '15', 'UNBOUNDED'])}"
        body = f"SELECT DISTINCT x, y FROM {streams[0]} {retain}"
        if random.random() < 0.75:
            body = f"SELECT x, y FROM {streams[0]} {random.choice(_OPERATORS)} SELECT x, y FROM {streams[1]} {retain}"
    return f"CREATE CONTINUOUS QUERY {name} AS {body}"


class Beside:
    """The last operator of a query, fed by the oracle's operands."""

    def __init__(self, query: Query, standing: StandingQuery) -> None:
        self.query = query
        self.standing = standing
        self.is_windowed = query.relation.window is not None
        self.operator = (InstanceOperator if self.is_windowed else HistoryOperator)(query.relation)
        largest = {name: clock(standing.oracle.largest(name, standing.first - 1)) for name in standing.oracle.streams}
        self.registered = RunningQuery(query, QueryStart(0, standing.first, largest))

    def emitted(self, event_time: EventTime) -> Counter[object]:
        relation = self.query.relation
        tables = [table(rows, relation.fields) if rows else None for rows in self._operands(event_time.cycle)]
        if self.is_windowed:
            bounds = event_time.closing(relation, self.registered.start)
        else:
            bounds = event_time.watermark(relation, after=False), event_time.watermark(relation)
        emitted = self.operator.take(tables, *bounds)
        return Counter((row_key(values), end) for values, end in rows_of(emitted, relation.fields))

    def _operands(self, cycle: int) -> Sequence[list[Row]]:
        relation = self.query.relation
        if isinstance(relation, Select):
            return [self.standing._select(relation, cycle)]
        return [self._rows(operand, cycle) for operand in (relation.left, relation.right)]

    def _rows(self, operand: Source, cycle: int) -> list[Row]:
        """In its first cycle a query that looks back is given all answers from history."""
        first = 0 if self.is_windowed and cycle == self.standing.first else cycle
        return [row for each in range(first, cycle + 1) for row in self.standing.emitted(operand, each)]


def clock(clock: float) -> Clock:
    return None if clock == BEGINNING else int(clock)


def clockwork_of(script: Script, cycle: int, queries: Mapping[str, RunningQuery]) -> EventTime:
    before, after = (
        {name: clock(script.oracle.largest(name, each)) for name in script.oracle.streams}
        for each in (cycle - 1, cycle)
    )
    return EventTime(cycle, before, after, queries)


@pytest.mark.parametrize("seed", range(150))
def test_operators_emit_what_the_oracle_emits(seed: int) -> None:
    random = Random(seed)
    script = Script(
        f"CREATE STREAM l (n BIGINT, x STRING, y DOUBLE) WATERMARK FOR n AS n - {random.choice([0, 4])} USING memory "
        f"BACKFILL {random.choice([1, 30])};"
        f"CREATE STREAM r (n BIGINT, x STRING, y DOUBLE) WATERMARK FOR n AS n - {random.choice([0, 4])} USING memory "
        f"BACKFILL {random.choice([1, 30])};"
    )
    beside: dict[str, Beside] = {}
    now = 0
    for cycle in range(8):
        if cycle in (0, 3):
            for number in range(2):
                name = f"q{cycle}{number}"
                script.run(random_query(random, name))
                beside[name] = Beside(script.query(name), script.oracle.queries[name])
        now += random.choice([0, 3, 9])
        arriving = {
            stream: [(now + random.randint(-8, 8), *random.choice(_VALUES)) for _ in range(random.choice([0, 2, 6]))]
            for stream in ("l", "r")
        }
        script.cycle(**arriving)
        event_time = clockwork_of(script, cycle, {name: each.registered for name, each in beside.items()})
        for each in beside.values():
            expected = Counter((row_key(row.values), row.clock) for row in each.standing.answers(cycle))
            assert each.emitted(event_time) == expected, each.query.text


def test_no_spark_is_needed() -> None:
    modules = "weft.runtime.stages.sets.set_operators"
    check = f"import sys, {modules}; sys.exit('pyspark' in sys.modules)"
    assert run([sys.executable, "-c", check], check=False).returncode == 0
