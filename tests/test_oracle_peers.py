"""The oracle against DuckDB and Spark on random queries: three evaluators that share no code must agree.

All rows arrive in one cycle and nothing is late; then a heartbeat far in the future closes every window. What the
oracle said in both cycles together is what a batch engine computes from the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.oracle_script import Script
from tests.oracle_values import same
from tests.support.generator import (
    Row,
    clocks,
    declaration,
    queries,
    rows,
    step_of,
    streams,
    table_declaration,
    table_rows,
    tables,
)
from tests.support.generator_tables import Grammar
from tests.support.peers import Unsupported, Values, difference
from tests.support.peers_duckdb import DuckPeer
from tests.support.peers_spark import SparkPeer, batch_settings
from tests.test_oracle_expressions import EXAMPLES, ROW, SCHEMA
from weft.algebra import Query, Stream, Table, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: EMIT EMPTY answers instances that no row is in, which batch SQL has no simple way to say.
GRAMMAR = Grammar(emit_empty=False)

QUERIES_PER_CASE = 8
FAR_AWAY = 100_000


class Peer(Protocol):
    def load(self, streams: Sequence[Stream | Table], rows: Mapping[str, Sequence[Row]]) -> None: ...

    def answers(self, query: Query, others: Sequence[Query]) -> list[Values]: ...


@dataclass(frozen=True)
class Case:
    """Streams and tables, all their rows, and queries over them."""

    streams: tuple[Stream, ...]
    tables: tuple[Table, ...]
    rows: Mapping[str, Sequence[Row]]
    queries: Mapping[str, str]


@st.composite
def cases(draw: DrawFn) -> Case:
    declared = tuple(draw(streams(name, delays=(1_000,))) for name in ("trades", "quotes"))
    arrived = {each.name: draw(rows(each, clocks(each, -10, 20), most=18, least=8)) for each in declared}
    static = tuple(draw(tables(name)) for name in ("symbols", "venues"))
    loaded = {each.name: draw(table_rows(each)) for each in static}
    texts = draw(queries(declared, GRAMMAR, QUERIES_PER_CASE, static=static))
    return Case(declared, static, {**arrived, **loaded}, texts)


def answered(case: Case) -> tuple[Script, dict[str, list[Values]]]:
    """The bound queries, and all answers that the oracle gives in both cycles."""
    created = [*map(declaration, case.streams), *map(table_declaration, case.tables)]
    script = Script(";\n".join([*created, *case.queries.values()]))
    script.load_named({table.name: case.rows[table.name] for table in case.tables})
    first = script.oracle.cycle(case.rows)
    last = script.oracle.cycle({}, {each.name: FAR_AWAY * step_of(each) for each in case.streams})
    return script, {name: first[name] + last[name] for name in case.queries}


def check_agreement(peer: Peer, number_of_cases: int, phases: Sequence[Phase]) -> int:
    """Compares the oracle with a peer on random cases; the number of different queries on which they agreed."""
    agreed: set[str] = set()

    @seed(20240229)
    @settings(
        max_examples=number_of_cases,
        phases=phases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def agree(case: Case) -> None:
        script, answers = answered(case)
        peer.load([*case.streams, *case.tables], case.rows)
        for name, text in case.queries.items():
            if text not in agreed and _agrees(peer, script, name, answers[name]):
                agreed.add(text)

    agree()
    return len(agreed)


def _agrees(peer: Peer, script: Script, name: str, expected: list[Values]) -> bool:
    query = script.query(name)
    try:
        actual = peer.answers(query, list(script.queries.values()))
    except Unsupported:
        return False
    difference_ = difference(query.relation, expected, actual)
    assert not difference_, f"{query.text}\n(-: oracle only, +: peer only){difference_}"
    return True


def test_oracle_agrees_with_duckdb() -> None:
    assert check_agreement(DuckPeer(), 90, (Phase.generate, Phase.shrink)) >= 180


@pytest.mark.prove
def test_oracle_agrees_with_duckdb_on_a_thousand_queries() -> None:
    assert check_agreement(DuckPeer(), 500, (Phase.generate, Phase.shrink)) >= 1_000


@pytest.fixture
def spark_peer(spark: SparkSession) -> Iterator[SparkPeer]:
    with batch_settings(spark):
        yield SparkPeer(spark)


@pytest.mark.spark
def test_oracle_agrees_with_spark(spark_peer: SparkPeer) -> None:
    assert check_agreement(spark_peer, 22, (Phase.generate,)) >= 50


@pytest.mark.spark
@pytest.mark.prove
def test_oracle_agrees_with_spark_on_five_hundred_queries(spark_peer: SparkPeer) -> None:
    assert check_agreement(spark_peer, 200, (Phase.generate,)) >= 500


@pytest.mark.spark
def test_expressions_worked_out_by_hand_are_sparks(spark_peer: SparkPeer) -> None:
    """Not only our reading of Spark's rules: the examples themselves, and the types that the binder gives them."""
    script = Script(SCHEMA)
    columns = ", ".join(f"{expression} AS v{n}" for n, (expression, _) in enumerate(EXAMPLES))
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {columns} FROM s")
    stream = script.oracle.streams["s"]
    spark_peer.load([stream], {"s": [{field.name: value for field, value in zip(stream.fields, ROW, strict=True)}]})
    [answer] = spark_peer.answers(script.query("q"), [])
    compared = zip(EXAMPLES, answer, strict=True)
    differing = {expression: (ours, sparks) for (expression, ours), sparks in compared if not _nearly(ours, sparks)}
    assert differing == {}


def _nearly(value: Value, other: Value) -> bool:
    """Equal, but for the last bits of a logarithm or a power."""
    if isinstance(value, float) and isinstance(other, float) and math.isfinite(value):
        return math.isclose(value, other, rel_tol=1e-12)
    return same(value, other)
