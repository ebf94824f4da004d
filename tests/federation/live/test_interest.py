"""What is sent to a provider is never less than its queries need, and each row is sent once."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle_expressions import Scope, holds
from weft.algebra import Query, Select
from weft.federation.distribution.stream_interest import Interest, interests_of, united
from weft.federation.live.source_agent import chosen, divided
from weft.sql import NamesInMemory, read, statements

_STREAM = "CREATE STREAM t (n BIGINT, sym STRING, price DOUBLE, qty INT) WATERMARK FOR n AS n - 5 USING parquet"
_SCHEMA = pa.schema([("n", pa.int64()), ("sym", pa.string()), ("price", pa.float64()), ("qty", pa.int32())])

CONDITIONS = (
    "sym = 'A'",
    "sym IN ('A', 'B') AND qty > 3",
    "sym = 'A' OR price < 2.5",
    "NOT (qty BETWEEN 2 AND 4)",
    "qty IS NULL",
    "qty IS NOT NULL AND sym <> 'B'",
    "qty * 2 > 5 AND price >= 1.0",
    "qty + n < 9",
    "(sym = 'A' AND qty = 1) OR (sym = 'B' AND qty = 2) OR price > 6.0",
    "upper(sym) = 'A'",
    "sym LIKE 'A%'",
    "qty > 3 AND qty < 2",
)


def query_of(text: str) -> Query:
    names = NamesInMemory()
    stream = read(_STREAM, names)
    assert isinstance(stream, statements.Create)
    names.add(stream.definition)
    created = read(f"CREATE CONTINUOUS QUERY q AS {text}", names)
    assert isinstance(created, statements.Create)
    return created.definition


ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(["A", "B", "a", "C", None]),
        st.sampled_from([0.0, -0.0, 1.0, 2.5, 7.0, float("nan"), None]),
        st.one_of(st.none(), st.integers(-1, 6)),
    ),
    max_size=12,
)


def table(rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    return pa.table(
        [pa.array(list(each), kind.type) for each, kind in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )


@pytest.mark.parametrize("condition", CONDITIONS)
@settings(deadline=None)
@given(rows=ROWS)
def test_every_row_that_satisfies_the_condition_is_wanted(condition: str, rows: list[tuple[object, ...]]) -> None:
    query = query_of(f"SELECT n, sym, price, qty FROM t WHERE {condition}")
    assert isinstance(query.relation, Select)
    wanted = interests_of(query)["t"].mask(table(rows))
    for row, is_wanted in zip(rows, wanted, strict=True):
        columns = {("t", name): value for name, value in zip(_SCHEMA.names, row, strict=True)}
        if holds(query.relation.where, Scope(columns)):  # type: ignore[arg-type]
            assert is_wanted, (condition, row)


@pytest.mark.parametrize(
    ("condition", "columns", "expected"),
    [
        ("sym = 'A'", {"sym"}, [0, 2]),
        ("qty > 3", {"qty"}, [2]),
        ("qty <> 2 AND qty <> 3", {"qty"}, [2]),
        ("qty IS NULL", {"qty"}, [3]),
        ("price > 2.5 AND upper(sym) = 'A'", {"price"}, [1, 3]),
    ],
)
def test_rows_that_a_comparison_with_a_constant_excludes_are_not_wanted(
    condition: str, columns: set[str], expected: list[int]
) -> None:
    interest = interests_of(query_of(f"SELECT n FROM t WHERE {condition}"))["t"]
    assert {name for box in interest.any_of for name, _ in box} <= columns
    rows = table([(0, "A", 1.0, 2), (1, "B", 7.0, 3), (2, "A", 2.5, 4), (3, None, float("nan"), None)])
    assert [row for row, is_wanted in enumerate(interest.mask(rows)) if is_wanted] == expected


def test_only_columns_that_are_computed_with_are_sent_and_the_clock() -> None:
    assert interests_of(query_of("SELECT SUM(qty) AS s FROM t [ROWS 10 SLIDE 10]"))["t"].columns == {"n", "qty"}
    joined = query_of(
        "SELECT a.qty FROM t a [ROWS 5], t b [ROWS 5] WHERE a.sym = b.sym AND b.price > 1.0 AND a.qty > 2"
    )
    interest = interests_of(joined)["t"]
    assert interest.columns == {"n", "sym", "qty", "price"}
    assert len(interest.any_of) == 2


def test_a_query_that_emits_empty_windows_counts_from_the_first_row_of_all() -> None:
    text = "SELECT COUNT(*) AS c FROM t [ROWS 10 SLIDE 10] WHERE qty > 5"
    assert not interests_of(query_of(text))["t"].mask(table([(1, "A", 1.0, 1)])).any()
    assert interests_of(query_of(f"{text} EMIT EMPTY"))["t"].mask(table([(1, "A", 1.0, 1)])).all()


@settings(deadline=None)
@given(rows=ROWS, conditions=st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3))
def test_rows_are_divided_by_the_sites_that_want_them_and_each_is_sent_once(
    rows: list[tuple[object, ...]], conditions: list[str]
) -> None:
    wanting = {
        f"n{number}": interests_of(query_of(f"SELECT n, sym, price, qty FROM t WHERE {each}"))["t"]
        for number, each in enumerate(conditions)
    }
    batch = table(rows).append_column("row", pa.array(range(len(rows)), pa.int64()))
    with_rows = {site: Interest(each.columns | {"row"}, each.any_of) for site, each in wanting.items()}
    parts = list(divided(batch, with_rows))
    sent = [row for _, part in parts for row in part["row"].to_pylist()]
    assert len(sent) == len(set(sent))
    for site, interest in with_rows.items():
        got = [row for who, part in parts if site in who for row in part["row"].to_pylist()]
        assert sorted(got) == sorted(chosen(batch, interest.columns, interest.mask(batch))["row"].to_pylist())


def test_columns_of_a_part_are_those_that_its_receivers_need() -> None:
    batch = table([(1, "A", 1.0, 1), (2, "B", 9.0, 5)])
    wanting = {
        "n1": interests_of(query_of("SELECT qty FROM t WHERE sym = 'A'"))["t"],
        "n2": interests_of(query_of("SELECT price FROM t"))["t"],
    }
    parts = {who: part.column_names for who, part in divided(batch, wanting)}
    assert parts == {("n1", "n2"): ["n", "sym", "price", "qty"], ("n2",): ["n", "price"]}


def test_too_many_conditions_are_none() -> None:
    many = [interests_of(query_of(f"SELECT qty FROM t WHERE qty = {n}"))["t"] for n in range(300)]
    assert len(united({"t": each} for each in many[:200])["t"].any_of) == 200
    assert united({"t": each} for each in many)["t"].mask(table([(1, "A", 1.0, 7000)])).all()
