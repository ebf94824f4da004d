"""The worked examples of the ARGUS digest that an engine decides, under their own names, beside the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.runtime.workload_run import Run, values_of
from tests.support.plans import planned
from weft.algebra import Value
from weft.explain.project import relations_of
from weft.plan.nodes import Evaluator
from weft.runtime.stages.statistics import measured
from weft.sql.check import check

F = """CREATE STREAM f (day BIGINT, id INT, kind INT, amount INT, sender INT, receiver INT)
WATERMARK FOR day AS day - 2 USING memory;"""
HOP = "{0}.receiver = {1}.sender AND {1}.day BETWEEN {0}.day AND {0}.day + {2}"
CHAIN = (
    "SELECT a.id, b.id AS second, c.id AS third FROM f a, f b, f c WHERE a.kind = 1 AND b.kind = 1 AND c.kind = 1 "
    f"AND a.amount > 100 AND b.amount > a.amount / 2 AND c.amount = b.amount AND {HOP.format('a', 'b', '{days}')} "
    f"AND {HOP.format('b', 'c', '{days}')}"
)
RECEIVED, SENT = (
    f"SELECT {side} AS bank, SUM(amount) AS total FROM f [ROWS 4 SLIDE 4] GROUP BY {side} HAVING SUM(amount) > {{0}}"
    for side in ("receiver", "sender")
)
BOTH = (
    "WITH r AS ({received}), s AS ({sent}) SELECT r.bank, r.total AS rsum, s.total AS ssum FROM r [NOW] r, s [NOW] s "
    "WHERE r.bank = s.bank"
)


def both(received: int, sent: int) -> str:
    return BOTH.format(received=RECEIVED.format(received), sent=SENT.format(sent))


def created(**queries: str) -> str:
    return "\n".join(f"CREATE CONTINUOUS QUERY {name} AS {text};" for name, text in queries.items())


def transfers(first: int) -> list[tuple[Value, ...]]:
    """A chain of three that passes 120 on, and some that lead nowhere."""
    chain = [(first, 1, 1, 120, 1, 2), (first + 1, 2, 1, 80, 2, 3), (first + 2, 3, 1, 80, 3, 4)]
    return [*chain, (first + 2, 4, 2, 500, 4, 1), (first + 3, 5, 1, 30, 2, 3)]


def evaluators(script: str) -> list[list[tuple[Evaluator, str]]]:
    """Who evaluates which relation of each query."""
    queries = check(script).queries
    plan = planned(queries)
    return [[(each.evaluator, each.text) for each in relations_of(plan, query.name)] for query in queries]


def distinct(operators: Sequence[Sequence[tuple[Evaluator, str]]], evaluator: Evaluator) -> int:
    return len({place for query in operators for found, place in query if found is evaluator})


@pytest.mark.spark
def test_joins_and_aggregates_below_joins_in_one_network(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        F + created(j2=CHAIN.format(days=4), s3=CHAIN.format(days=2), j3=both(50, 50), s4=both(100, 50))
    )
    for cycle in range(4):
        assert run.take(f=transfers(4 * cycle)) == ""
    answered = run.engine.last.answered
    assert answered["j2"] == 4
    assert answered["j3"] > answered["s4"] > 0
    # Two chains and two pairs of sums: the sums of a day are there once for both.
    assert sorted(run.engine.last.evaluators.values()) == ["joins"] * 4 + ["windows"] * 2


@pytest.mark.spark
def test_an_aggregate_is_kept_up_to_date(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(MED + created(a=QUERY_A))
    assert run.take(med=[(1, "flu", "H1", 100), (1, "flu", "H1", 200)]) == ""
    assert run.take(med=[(1, "flu", "H1", 60), (1, "cold", "H1", 40)]) == ""
    # Only what changed is told: flu with all three of its rows, cold with its first.
    assert last_answers(run, "a", 2) == [("cold", "H1", 1, 1, 40.0), ("flu", "H1", 1, 3, 120.0)]


@pytest.mark.spark
def test_a_coarser_aggregate_counts_each_increment_once(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(MED + created(a=QUERY_A, b=QUERY_B))
    assert run.take(med=[(1, "flu", "H1", 100), (1, "flu", "H1", 200)]) == ""
    assert run.take(med=[(1, "flu", "H1", 60), (1, "cold", "H1", 40)]) == ""
    assert last_answers(run, "b", 1) == [("H1", 1, 100.0)], "400 over 4; totals added to totals would make 700 over 6"


@pytest.mark.spark
def test_coarser_aggregates_come_from_the_finest_partials(beside_oracle: Callable[[str], Run]) -> None:
    """A new grouping between two others changes nothing for either: all of them roll up the same partials."""
    c = "SELECT hospital, AVG(fee) AS fee FROM med GROUP BY hospital"
    run = beside_oracle(MED + created(a=QUERY_A, c=c))
    assert run.take(med=[(1, "flu", "H1", 100), (1, "flu", "H2", 200)]) == ""
    run.execute(created(b=QUERY_B))
    assert run.take(med=[(2, "flu", "H1", 60), (2, "cold", "H1", 40)]) == ""
    text = run.loom.explain()
    assert text.count("one Spark job in a cycle reduces the rows of med") == 1
    assert last_answers(run, "c", 1) == [("H1", pytest.approx(200 / 3))]


@pytest.mark.spark
def test_holistic_aggregates_are_computed_from_rows(beside_oracle: Callable[[str], Run]) -> None:
    same = "SELECT hospital, MEDIAN(fee) AS middle FROM med [RANGE UNBOUNDED] GROUP BY hospital"
    run = beside_oracle(MED + created(b=QUERY_B, same=same))
    assert run.take(med=[(1, "flu", "H1", 100), (1, "flu", "H1", 200)]) == ""
    assert run.take(med=[(1, "flu", "H1", 60)]) == ""
    assert last_answers(run, "same", 1) == [("H1", 100.0)]


FOREVER = " RETAIN UNBOUNDED"
OF_KINDS = [f"SELECT id, amount FROM f WHERE kind = {kind}" for kind in range(1, 4)]


@pytest.mark.spark
def test_set_operators_are_shared_by_what_they_consist_of(beside_oracle: Callable[[str], Run]) -> None:
    """How they are put together is chosen once: it stays when one of them goes, and through a restart."""
    a, b, c = OF_KINDS
    texts = {
        "small": f"{b} UNION {c}{FOREVER}",
        "large": f"{a} UNION {b} UNION {c}{FOREVER}",
        "less": f"{a} EXCEPT {b} EXCEPT {c}{FOREVER}",
        "twice": f"{a} UNION ALL {a}",
        "once": f"{a} UNION ALL {b}",
    }
    run = beside_oracle(F + created(**texts))

    def rows(cycle: int) -> list[tuple[Value, ...]]:
        return [(cycle, n % 5 + cycle % 2, n % 3 + 1, n % 2, 0, 0) for n in range(12)]

    assert run.take(f=rows(0)) == ""
    sets = [log for log, evaluator in run.engine.last.evaluators.items() if evaluator == "sets"]
    assert len(sets) == len(texts), "one operator more for each, and none that two of them have"
    assert run.take(f=rows(1)) == ""
    run.execute("DROP CONTINUOUS QUERY small;")
    assert run.take(f=rows(2)) == ""
    run.restart()
    assert run.take(f=rows(3)) == ""
    run.execute(created(late=texts["small"]))
    assert run.take(f=rows(4)) == ""
    assert run.take(f=rows(5)) == ""
    assert sum(each == "sets" for each in run.engine.last.evaluators.values()) == len(texts) + 1


def test_columns_correspond_by_position() -> None:
    one = "SELECT id, kind, sender, amount FROM f UNION SELECT id, kind, receiver, amount FROM f RETAIN UNBOUNDED"
    renamed = one.replace("sender,", "sender AS x,")
    swapped = "SELECT id, kind, amount, sender FROM f UNION SELECT id, kind, receiver, amount FROM f RETAIN UNBOUNDED"
    found = evaluators(F + created(one=one, renamed=renamed, swapped=swapped))
    assert distinct(found, Evaluator.SETS) == 2


def test_a_view_that_is_registered_twice_adds_nothing() -> None:
    once, twice = (evaluators(F + created(**{f"q{n}": both(50, 50) for n in range(count)})) for count in (1, 2))
    for evaluator in Evaluator:
        assert distinct(once, evaluator) == distinct(twice, evaluator)
    assert distinct(once, Evaluator.WINDOWS) == 2
    assert distinct(once, Evaluator.JOINS) == 1


@pytest.mark.spark
def test_nothing_new_takes_no_job(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(F + created(q=CHAIN.format(days=4)))
    assert run.take(f=transfers(0)) == ""
    assert run.take() == ""
    assert run.take(f=[(8, 9, 2, 500, 4, 1)]) == ""
    assert run.take(f=transfers(8)) == ""
    _, empty, useless, last = (each.jobs for each in measured(run.loom.catalog).cycles)
    assert empty == 0
    assert useless is not None
    assert last is not None
    assert useless <= last


MED = "CREATE STREAM med (day BIGINT, disease STRING, hospital STRING, fee INT) WATERMARK FOR day AS day USING memory;"
QUERY_A = (
    "SELECT LOWER(disease) AS dis_cat, hospital, day AS vdate, COUNT(*) AS visits, AVG(fee) AS fee FROM med "
    "GROUP BY LOWER(disease), hospital, day"
)
QUERY_B = "SELECT hospital, day AS vdate, AVG(fee) AS fee FROM med GROUP BY hospital, day"


def last_answers(run: Run, query: str, count: int) -> list[tuple[Value, ...]]:
    """The newest answers of a query, so many of them."""
    table = run.loom.results(query)
    relation = run.loom.catalog.query(query).relation
    return sorted(values_of(table.slice(table.num_rows - count), relation), key=str)
