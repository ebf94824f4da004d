"""The search for the queries that an evaluation fails because of."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from weft.plan.query_list import QueryList, build, with_read, with_readers
from weft.runtime.queries_in_error import failing_queries
from weft.runtime.spark.engine_errors import EngineError, StorageError
from weft.runtime.spark.spark_failures import is_attributable
from weft.sql import NamesInMemory, read, statements


def plan_of(parents: list[int | None]) -> QueryList:
    """Queries q0, q1, …, each of which reads a stream or the answers of one before it."""
    names = NamesInMemory()
    stream = read("CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING memory", names)
    assert isinstance(stream, statements.Create)
    names.add(stream.definition)
    queries = []
    for number, parent in enumerate(parents):
        source = "s" if parent is None else f"q{parent}"
        text = f"CREATE CONTINUOUS QUERY q{number} AS SELECT n, v FROM {source} WHERE v > {number}"
        statement = read(text, names)
        assert isinstance(statement, statements.Create)
        names.add(statement.definition)
        queries.append(statement.definition)
    return build(1, {1: stream.definition}, tuple(queries), {each.name: i + 2 for i, each in enumerate(queries)}, {})


@st.composite
def plans(draw: st.DrawFn) -> tuple[QueryList, set[str]]:
    count = draw(st.integers(2, 12))
    parents = [draw(st.none() | st.integers(0, number - 1)) if number else None for number in range(count)]
    return plan_of(parents), {f"q{number}" for number in draw(st.sets(st.integers(0, count - 1), max_size=4))}


@given(plans())
def test_the_search_finds_the_queries_that_fail_and_not_their_readers(drawn: tuple[QueryList, set[str]]) -> None:
    plan, broken = drawn

    def evaluate(names: Collection[str]) -> Exception | None:
        failing = sorted(broken & with_read(plan, names))
        return ValueError(failing[0]) if failing else None

    roots = {name for name in broken if not broken & (with_read(plan, {name}) - {name})}
    found = failing_queries(plan, evaluate)
    assert found.keys() == roots
    spared = {each.name for each in plan.queries} - with_readers(plan, roots)
    # Evicted queries go with their readers, and what is left succeeds.
    assert evaluate(spared) is None


def test_if_all_queries_fail_for_one_reason_it_is_no_query_of_them() -> None:
    found = failing_queries(plan_of([None] * 5), lambda names: OverflowError("too small a machine") if names else None)
    assert found == {}


def test_if_an_evaluation_without_queries_fails_no_query_is_tried() -> None:
    tried = []

    def evaluate(names: Collection[str]) -> Exception:
        tried.append(names)
        return ValueError("the rows cannot be read")

    assert failing_queries(plan_of([None] * 5), evaluate) == {}
    assert tried == [()]


def test_one_culprit_of_many_is_found_in_few_evaluations() -> None:
    plan, tried = plan_of([None] * 64), []

    def evaluate(names: Collection[str]) -> Exception | None:
        tried.append(names)
        return ValueError("broken") if "q37" in names else None

    assert failing_queries(plan, evaluate).keys() == {"q37"}
    assert len(tried) <= 2 + 2 * 6


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PySparkException("[DIVIDE_BY_ZERO] Division by zero."), True),
        (KeyError("a column"), True),
        (EngineError("too much memory"), True),
        (StorageError("the disk is full"), False),
        (OSError(28, "No space left on device"), False),
        (MemoryError(), False),
        (Py4JNetworkError("Answer from Java side is empty"), False),
        (PySparkException("Job aborted: java.io.IOException: No space left on device"), False),
        (PySparkException("Job 7 cancelled because SparkContext was shut down"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_failures_of_the_machine_are_no_query_s(error: BaseException, *, expected: bool) -> None:
    assert is_attributable(error) == expected
