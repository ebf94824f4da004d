"""Laws that hold for every workload: they need no second evaluator, and they exercise the generator's whole range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.oracle import LATE, NULL_CLOCK
from tests.oracle_script import Script
from tests.oracle_values import row_key
from tests.support.generator import (
    Row,
    Workload,
    accepted,
    batches,
    clocks,
    declaration,
    queries,
    rows,
    step_of,
    streams,
    workloads,
)
from tests.support.generator_expressions import ColumnText
from tests.support.generator_tables import Grammar, Table
from tests.support.peers import Values
from weft.algebra import Emission, KeyRef, Query, Select, Stream, WindowBound
from weft.algebra.properties import clock_type, emission
from weft.sql import NamesInMemory, read, statements

#: Constructs whose answers do not depend on how rows are cut into cycles, as long as none is late. Of the versions that
#: running aggregates emit, this is so of the last of each group.
ANY_CUT = Grammar(set_operators_over_history=False, emit_empty=False)

#: Constructs that look at rows through closing windows alone.
ONLY_WINDOWS = Grammar(
    selections=False, unbounded_aggregates=False, joins=False, set_operators_over_history=False, subqueries=2
)

PROPERTY = settings(
    max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


def bound_query(text: str, names: NamesInMemory) -> Query:
    statement = read(text, names)
    assert isinstance(statement, statements.Create)
    return statement.definition


def run(workload: Workload) -> tuple[Script, list[dict[str, list[Values]]]]:
    """The oracle after a whole workload, and its answers cycle by cycle."""
    script = Script(";\n".join([*workload.streams.values(), *workload.tables.values()]))
    answers = []
    for cycle in workload.cycles:
        script.load_named(cycle.tables)
        for name in cycle.drop:
            script.run(f"DROP CONTINUOUS QUERY {name}")
        for name in cycle.create:
            script.run(workload.queries[name])
        answers.append(script.oracle.cycle(cycle.rows, cycle.heartbeats))
    return script, answers


@PROPERTY
@given(st.data())
def test_answers_do_not_depend_on_how_rows_are_cut_into_cycles(data: DataObject) -> None:
    declared = [data.draw(streams(name, delays=(1_000,))) for name in ("trades", "quotes")]
    texts = data.draw(queries(declared, ANY_CUT, 4))
    arrived = {each.name: data.draw(rows(each, clocks(each, -10, 20), most=15)) for each in declared}
    number = data.draw(st.integers(2, 4))
    cuts: list[dict[str, list[Row]]] = [{each.name: [] for each in declared} for _ in range(number)]
    for name, each in arrived.items():
        for row in each:
            cuts[data.draw(st.integers(0, number - 1))][name].append(row)
    assert meanings(declared, texts, cuts) == meanings(declared, texts, [arrived])


@PROPERTY
@given(st.data())
def test_what_reads_a_running_aggregate_does_not_depend_on_the_cut_either(data: DataObject) -> None:
    stream = data.draw(streams("trades", delays=(1_000,)))
    totals = "CREATE CONTINUOUS QUERY totals AS SELECT sym, COUNT(*) AS n, SUM(qty) AS total FROM trades GROUP BY sym"
    names = NamesInMemory()
    names.add(stream)
    names.add(bound_query(totals, names))
    columns = (ColumnText("sym", "string"), ColumnText("n", "integer"), ColumnText("total", "integer"))
    sources = [Table("totals", columns, None, clock_type(stream))]
    texts = {"totals": totals}
    for name in ("q0", "q1"):
        texts[name], _, bound = data.draw(accepted(name, sources, ANY_CUT, names))
        names.add(bound)
    arrived = data.draw(rows(stream, clocks(stream, -10, 20), most=15, least=2))
    place = data.draw(st.integers(1, len(arrived) - 1))
    cuts = [{"trades": arrived[:place]}, {"trades": arrived[place:]}]
    assert meanings([stream], texts, cuts) == meanings([stream], texts, [{"trades": arrived}])


def meanings(
    declared: Sequence[Stream], texts: Mapping[str, str], cycles: Sequence[Mapping[str, Sequence[Row]]]
) -> tuple[dict[str, Counter], dict[str, dict[tuple, tuple]]]:
    """All answers of queries that emit rows, and the last version of each group of running aggregates."""
    script = Script(";\n".join([*map(declaration, declared), *texts.values()]))
    running = {
        name: each.relation for name, each in script.queries.items() if emission(each.relation) is not Emission.ROWS
    }
    rows_: dict[str, Counter] = {name: Counter() for name in texts if name not in running}
    versions: dict[str, dict[tuple, tuple]] = {name: {} for name in running}
    closing = {stream.name: 100_000 * step_of(stream) for stream in declared}
    for batch, heartbeats in [*((batch, {}) for batch in cycles), ({}, closing)]:
        for name, answers in script.oracle.cycle(batch, heartbeats).items():
            if name in rows_:
                rows_[name].update(map(row_key, answers))
                continue
            relation = running[name]
            if isinstance(relation, Select) and relation.is_grouped and relation.having is None:
                keys = [n for n, each in enumerate(relation.outputs) if isinstance(each.expression, KeyRef)]
                for version in map(row_key, answers):
                    versions[name][tuple(version[key] for key in keys)] = version
    return rows_, versions


@PROPERTY
@given(workloads())
def test_no_window_instance_is_answered_twice(workload: Workload) -> None:
    script, answers = run(workload)
    for name, query in script.queries.items():
        ends = _window_end(query.relation)
        seen = [{row[ends] for row in cycle.get(name, [])} for cycle in answers] if ends is not None else []
        assert sum(map(len, seen)) == len(set().union(*seen))


def _window_end(relation: object) -> int | None:
    """Where a windowed select shows the end of the instance."""
    if not isinstance(relation, Select):
        return None
    expressions = [output.expression for output in relation.outputs]
    return next((n for n, each in enumerate(expressions) if isinstance(each, WindowBound) and each.end), None)


@PROPERTY
@given(workloads(changes=False))
def test_every_row_is_taken_or_in_the_dead_letter_for_a_reason(workload: Workload) -> None:
    script, _ = run(workload)
    for name, stream in script.oracle.streams.items():
        arrived = [row for cycle in workload.cycles for row in cycle.rows[name]]
        letters = script.dead_letters(name)
        without_clock = [row for row in arrived if row[stream.clock] is None]
        assert [letter.reason for letter in letters].count(NULL_CLOCK) == len(without_clock)
        assert len(script.oracle.rows[name]) == len(arrived) - len(without_clock)
        assert {letter.reason for letter in letters} <= {LATE, NULL_CLOCK}


@PROPERTY
@given(st.data())
def test_backfill_answers_as_if_the_query_had_been_there(data: DataObject) -> None:
    """With all the history it could want, a query says the same whenever it is created."""
    declared = [data.draw(streams(name, backfills=(1_000_000,))) for name in ("trades", "quotes")]
    texts = data.draw(queries(declared, ONLY_WINDOWS, 3, derived=False))
    arrivals = data.draw(batches(declared))
    created = data.draw(st.integers(1, len(arrivals)))
    at_once, later = (Script(";\n".join(map(declaration, declared))) for _ in range(2))
    said_at_once: dict[str, Counter] = {name: Counter() for name in texts}
    said_later: dict[str, Counter] = {name: Counter() for name in texts}
    at_once.run(";".join(texts.values()))
    for n, (arrived, heartbeats) in enumerate([*arrivals, ({}, {})]):
        if n == created:
            later.run(";".join(texts.values()))
        for script, said in ((at_once, said_at_once), (later, said_later)):
            for name, answers in script.oracle.cycle(arrived, heartbeats).items():
                said[name].update(map(row_key, answers))
    assert said_later == said_at_once
