"""EXPLAIN tells what the woven stage does: golden texts, and what must hold of every set of queries."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.windows.dashboards import story
from tests.support.golden import FIXTURES, Example, read_golden, rewrite_golden
from tests.support.plans import planned, shared, trees
from weft.algebra import Query, Select, Stream
from weft.algebra.properties import leaves
from weft.explain.explained import explained, shared_document
from weft.explain.plan_description import ROW, SharedTree, Sharing, WovenQuery
from weft.explain.query_text import window_document
from weft.explain.shared_text import shared_text
from weft.expressions.spark_expressions import column, spark_type, with_names
from weft.plan.facts import CycleMeasured, Measurements, StreamMeasured
from weft.plan.nodes import ReduceNode
from weft.runtime.spark.rows import CORRUPT
from weft.runtime.stages.windows.reduction import reduction
from weft.sql import NamesInMemory, read, split, statements

FOLDER = FIXTURES / "explain"
FILES = sorted(path for path in FOLDER.glob("*.sql") if path.name != "given.sql")
EXAMPLES = [(path, example) for path in FILES for example in read_golden(path)]

#: What two cycles might have measured; the second found no rows on one of the streams.
TWO_CYCLES = Measurements(
    (
        CycleMeasured(
            0,
            1.25,
            12,
            4,
            {"begin": 0.25, "ingest": 0.75, "weave": 0.125, "commit": 0.125},
            {"trades": StreamMeasured(90_000, 0, 2, 1_200), "ticks": StreamMeasured(50, 0, 0, 6)},
        ),
        CycleMeasured(
            1,
            0.5,
            30,
            None,
            {"begin": 0.0625, "ingest": 0.25, "weave": 0.0625, "compact": 0.0625, "commit": 0.0625},
            {
                "trades": StreamMeasured(60_000, 1, 0, 900, 60_000_000, 1_000.0, 30_000.0, {"symbol": 12, "venue": 3}),
                "ticks": StreamMeasured(0, 0, 0),
            },
        ),
    ),
    {"trades": {"(price > CAST('100.0' AS DOUBLE))": 0.125}},
)


@cache
def _given() -> NamesInMemory:
    return _names((FOLDER / "given.sql").read_text(encoding="utf-8"))


def _names(script: str) -> NamesInMemory:
    names = NamesInMemory()
    for piece in split(script):
        statement = read(piece.text, names)
        if isinstance(statement, statements.Create):
            names.add(statement.definition)
    return names


def _queries(names: NamesInMemory) -> tuple[Query, ...]:
    return tuple(each for each in names.definitions.values() if isinstance(each, Query))


def _answer(statement: str, measured: Measurements) -> str:
    asked = read(statement, _given())
    assert isinstance(asked, statements.Explain)
    queries = _queries(_given())
    chosen = None if asked.query is None else _given().find(asked.query)
    return explained(queries, chosen, measured, asked.format).replace("\n\n", "\n")


def _measured_in(path: Path) -> Measurements:
    return TWO_CYCLES if path.stem == "has_run" else Measurements()


@pytest.fixture(scope="module", autouse=True)
def _rewritten(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        for path in FILES:
            rewrite_golden(path, lambda statement, path=path: _answer(statement, _measured_in(path)))
        pytest.skip("golden files are rewritten; read the diff, then run the tests again")


@pytest.mark.parametrize(
    ("path", "example"), EXAMPLES, ids=[f"{path.stem}:{example.line}" for path, example in EXAMPLES]
)
def test_explaining(path: Path, example: Example) -> None:
    assert _answer(example.statement, _measured_in(path)) == example.expected


# -- what holds of every set of queries -------------------------------------------------------------------------------


def _in_trees(found: Sharing) -> dict[str, tuple[WovenQuery, SharedTree]]:
    """The queries that windows close of, with their trees."""
    return {name: (each, each.tree) for name, each in found.woven.items() if isinstance(each.tree, SharedTree)}


def _dashboard(seed: int) -> tuple[Query, ...]:
    told = story(seed, most_queries=60)
    return _queries(_names(";".join([told.stream, *told.queries.values()])))


@pytest.fixture(params=range(8))
def dashboard(request: pytest.FixtureRequest) -> tuple[Query, ...]:
    return _dashboard(request.param)


def test_every_query_is_in_exactly_one_tree_or_has_a_reason(dashboard: Sequence[Query]) -> None:
    found = shared(dashboard)
    in_trees = Counter(name for stream in found.streams for tree in stream.trees for name in tree.queries)
    running = Counter(name for stream in found.streams for cohort in stream.running for name in cohort.queries)
    assert set((in_trees + running).values()) <= {1}
    assert in_trees.keys() == _in_trees(found).keys()
    assert in_trees.keys() | running.keys() == found.woven.keys()
    assert [each.name for each in dashboard if each.name not in found.woven] == list(found.not_woven)
    assert all(found.not_woven.values())


def test_companions_are_symmetric(dashboard: Sequence[Query]) -> None:
    found = shared(dashboard)
    pairs = {(name, other) for name, each in found.woven.items() for other in each.companions}
    assert pairs == {(other, name) for name, other in pairs}
    assert all(name != other for name, other in pairs)
    for name, each in found.woven.items():
        stream = found.stream(each.stream)
        assert each.tree in (*stream.trees, *stream.running)
        assert sorted([name, *each.companions]) == sorted(each.tree.queries)


def test_companions_take_the_same_rows_and_keys(dashboard: Sequence[Query]) -> None:
    relations = {each.name: each.relation for each in dashboard}
    for name, (each, _) in _in_trees(shared(dashboard)).items():
        own = relations[name]
        for other in (relations[companion] for companion in each.companions):
            assert isinstance(own, Select)
            assert isinstance(other, Select)
            assert own.keys == other.keys
            assert _conjuncts(own) == _conjuncts(other)


def _conjuncts(select: Select) -> set[object]:
    """A WHERE without the order, and the repetitions, of its parts: dashboards join them with AND alone."""
    where = select.where
    return set(where.args) if where is not None and getattr(where, "op", "") == "and" else {where}


def test_the_window_of_a_query_is_in_its_tree(dashboard: Sequence[Query]) -> None:
    found = shared(dashboard)
    for query in dashboard:
        if query.name in _in_trees(found):
            assert query.relation.window is not None
            shown = window_document(query.relation.window, query.relation.clock_type)
            assert shown in _in_trees(found)[query.name][1].windows


@pytest.mark.parametrize("rate", [None, Fraction(7, 3)])
def test_the_costs_of_queries_add_up_to_that_of_their_stream(rate: Fraction | None) -> None:
    told = StreamMeasured(rate.numerator, 0, 0, ticks=rate.denominator) if rate else StreamMeasured(0, 0, 0)
    found = shared(_dashboard(3), Measurements((CycleMeasured(0, 1.0, 0, None, {}, {"trades": told}),)))
    (stream,) = found.streams
    assert len(stream.trees) > 1
    rows = (rate or Fraction(0)) * ROW
    partials = sum(tree.reading_cost for tree in stream.trees)
    finals = sum(tree.final_cost for tree in stream.trees)
    assert sum(each.cost for each in found.woven.values()) == rows + partials + finals
    assert all(each.alone is not None and each.alone >= rows for each, _ in _in_trees(found).values())


def test_a_tree_is_apart_from_another_one(dashboard: Sequence[Query]) -> None:
    for stream in shared(dashboard).streams:
        assert [tree.number for tree in stream.trees] == list(range(len(stream.trees)))
        for cohort in stream.cohorts:
            own = {tree.number for tree in cohort.trees}
            for tree in cohort.trees:
                if tree.apart is None:
                    assert len(stream.trees) == 1
                    continue
                assert tree.apart.tree in set(range(len(stream.trees))) - {tree.number}
                # Trees of one cohort are weighed against each other; those of another are another matter.
                assert (tree.apart.saved is not None) == (tree.apart.tree in own) == (len(own) > 1)


def test_every_query_is_explained_once(dashboard: Sequence[Query]) -> None:
    found = shared(dashboard)
    text = shared_text(dashboard, found, Measurements())
    for name in _in_trees(found):
        assert len(re.findall(rf"^ +{name} costs ", text, re.MULTILINE)) == 1
    for name, reason in found.not_woven.items():
        assert f"\n  {name}: {reason}" in text
    for cohort in (each for stream in found.streams for each in stream.running):
        assert f"\n    {', '.join(cohort.queries[:8])}" in text


def test_the_document_is_json_and_names_everybody(dashboard: Sequence[Query]) -> None:
    document = shared_document(dashboard, shared(dashboard), TWO_CYCLES)
    assert json.loads(json.dumps(document)) == document
    assert [each["query"] for each in document["queries"]] == [each.name for each in dashboard]
    assert all((each["woven"] is None) == (each["not_woven"] is not None) for each in document["queries"])


def test_explaining_one_query_tells_of_its_stream_alone() -> None:
    queries = _queries(_given())
    document = shared_document([_given().find("lonely")], shared(queries), Measurements())
    assert [each["stream"] for each in document["streams"]] == ["ticks"]
    assert shared_document([_given().find("dear")], shared(queries), Measurements())["streams"] == []


def test_what_is_explained_is_the_plan(dashboard: Sequence[Query]) -> None:
    found, plan = shared(dashboard), planned(dashboard)
    chosen = trees(plan).tree_of
    for name, (_, shown) in _in_trees(found).items():
        spec, stream = chosen[name], plan.queries[name].query.relation
        assert shown.windows == tuple(window_document(each, stream.clock_type) for each in spec.windows)
        assert {other for other, tree in chosen.items() if tree == spec} == set(shown.queries)
    for node in plan.of(ReduceNode):
        explained_as = found.stream(node.stream).reduction
        assert len({each.text for of in node.predicate_sets for each in of}) == len(explained_as.conditions)
        assert (len(node.keys), len(node.aggregates)) == (len(explained_as.keys), len(explained_as.aggregates))


def test_a_thousand_conditions_are_a_few_lines_of_text_and_all_there_in_json() -> None:
    script = "".join(
        f"CREATE CONTINUOUS QUERY q{n} AS SELECT COUNT(*) AS n FROM ticks [ROWS 10 SLIDE 10] WHERE price > {7 * n};"
        for n in range(1000)
    )
    queries = tuple(
        _queries(_names(f"CREATE STREAM ticks (n BIGINT, price INT) WATERMARK FOR n AS n USING json; {script}"))
    )
    text = explained(queries, queries[0], Measurements(), "TEXT")
    assert "shares the reduction with 999 other queries" in text
    assert max(map(len, text.splitlines())) < 400
    (stream,) = json.loads(explained(queries, queries[0], Measurements(), "JSON"))["streams"]
    assert len(stream["reduction"]["conditions"]) == 1000
    assert all(str(7 * n) in stream["reduction"]["sql"] for n in range(1000))


def test_no_queries_share_nothing() -> None:
    assert explained((), None, Measurements(), "TEXT") == "no queries"
    assert json.loads(explained((), None, Measurements(), "JSON"))["queries"] == []


# -- texts ------------------------------------------------------------------------------------------------------------


def test_columns_are_named_and_strings_are_left_alone() -> None:
    stream = _given().find("trades")
    assert with_names("(c1 = 'c1 isn\\'t c2') AND c3 > c10c AND c4", stream) == (
        "(symbol = 'c1 isn\\'t c2') AND price > c10c AND qty"
    )
    assert with_names("c4 + c5", stream) == "qty + c5"


@pytest.mark.spark
def test_the_statement_that_is_shown_is_the_reduction_that_runs(spark: SparkSession) -> None:
    queries = [each for each in _dashboard(5) if each.name in shared(_dashboard(5)).woven]
    (node,) = planned(queries).of(ReduceNode)
    (stream,) = {leaf for each in queries for leaf in leaves(each.relation)}
    assert isinstance(stream, Stream)
    schema = ", ".join(f"{column(n)} {spark_type(each.type)}" for n, each in enumerate(stream.fields))
    arrived = [row for cycle in story(5, most_queries=60).cycles for row in cycle.rows["trades"]]
    values = [(*(row[each.name] for each in stream.fields), None) for row in arrived]
    rows = spark.createDataFrame(values, f"{schema}, {CORRUPT} STRING")
    rows.createOrReplaceTempView(stream.name)
    try:
        shown = spark.sql(shared(queries).streams[0].reduction.sql).toArrow()
    finally:
        spark.catalog.dropTempView(stream.name)
    run = reduction(stream, node).of(rows)
    assert shown.schema == run.schema
    assert run.num_rows > 10
    assert Counter(map(repr, shown.to_pylist())) == Counter(map(repr, run.to_pylist()))


def test_the_page_about_explain_shows_what_is_said() -> None:
    page = (FIXTURES.parents[1] / "docs" / "explain.md").read_text(encoding="utf-8")
    script, shown = re.search(r"```sql\n(.*?)```", page, re.DOTALL), re.search(r"```\n(stream .*?)```", page, re.DOTALL)
    assert script is not None
    assert shown is not None
    queries = _queries(_names(script[1]))
    assert shown[1] in explained(queries, None, Measurements(), "TEXT")
