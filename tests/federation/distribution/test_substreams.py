"""Substreams of real queries: nothing that a query needs is left out, and what it does not want is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra import Query
from weft.federation.distribution.stream_interest import StreamSplit, split_of, wanted_of
from weft.predicates.row_matching import PlainColumn
from weft.sql import NamesInMemory, parse, read
from weft.sql.relation_binder import bind_relation
from weft.sql.statements import Create

NAMES = NamesInMemory()
for text in (
    "CREATE STREAM r (ts BIGINT, a BIGINT, b BIGINT, s STRING, x DOUBLE) WATERMARK FOR ts AS ts - 0 USING parquet "
    "OPTIONS (path 'r')",
    "CREATE STREAM q (ts BIGINT, b BIGINT, c BIGINT) WATERMARK FOR ts AS ts - 0 USING parquet OPTIONS (path 'q')",
):
    statement = read(text, NAMES)
    assert isinstance(statement, Create)
    NAMES.add(statement.definition)


def bound(text: str) -> Query:
    return Query("q", bind_relation(parse(text), NAMES), None)


def position(split: StreamSplit, value: object) -> int:
    """The substream of a row whose subject has a value."""
    value_of_subject = split.intervals.value
    assert isinstance(value_of_subject, PlainColumn)
    kind = {"s": pa.string(), "x": pa.float64()}.get(value_of_subject.column, pa.int64())
    return int(split.intervals.numbers(pa.table({value_of_subject.column: pa.array([value], kind)}))[0])


def test_the_interest_of_the_join_contains_that_of_the_selection() -> None:
    join = wanted_of(bound("SELECT r.a, q.c FROM r [RANGE 5], q [RANGE 5] WHERE r.b = q.b AND r.a > 10"))
    selection = wanted_of(bound("SELECT r.a FROM r WHERE r.a > 20"))
    assert set(join) == {"r", "q"}
    assert set(selection) == {"r"}
    assert [list(each) for each in join["q"]] == [[]]
    split = split_of([*join["r"], *selection["r"]])
    assert split.subject is not None
    assert split.subject.text == "r.a"
    # Up to 10, from 11 to 20, from 21 on, and NULL.
    assert len(split) == 4
    assert split.interest(join["r"]) == [1, 2]
    assert split.interest(selection["r"]) == [2]


def test_texts_have_substreams_too() -> None:
    queries = [
        wanted_of(bound(f"SELECT s FROM r WHERE {each}"))["r"] for each in ("s = 'A'", "s IN ('A', 'B')", "a > 1")
    ]
    split = split_of([each for wanted in queries for each in wanted])
    a, b = position(split, "A"), position(split, "B")
    assert split.interest(queries[0]) == [a]
    assert split.interest(queries[1]) == [a, b]
    assert split.interest(queries[2]) == list(range(len(split)))


def test_a_stream_that_no_query_constrains_is_one_substream() -> None:
    wanted = wanted_of(bound("SELECT a FROM r"))["r"]
    split = split_of(wanted)
    assert (len(split), split.interest(wanted)) == (1, [0])


def test_a_query_over_answers_wants_what_its_parent_wants() -> None:
    parent = Query("hot", bind_relation(parse("SELECT ts, a FROM r WHERE a > 10"), NAMES), "ts")
    NAMES.add(parent)
    child = bound("SELECT a FROM hot WHERE a < 50")
    assert wanted_of(child, {"hot": parent}) == wanted_of(parent)
    assert wanted_of(child) == {}


def test_both_sides_of_a_union_are_wanted() -> None:
    wanted = wanted_of(bound("SELECT a FROM r WHERE a = 1 UNION ALL SELECT a FROM r WHERE a = 3"))["r"]
    split = split_of(wanted)
    assert split.interest(wanted) == [position(split, 1), position(split, 3)]


def test_too_many_cuts_are_thinned_and_nothing_is_lost() -> None:
    queries = [wanted_of(bound(f"SELECT a FROM r WHERE a = {value}"))["r"] for value in range(0, 100, 2)]
    split = split_of([each for wanted in queries for each in wanted], most=10)
    assert len(split) <= 12
    for value, wanted in zip(range(0, 100, 2), queries, strict=True):
        assert position(split, value) in split.interest(wanted)


@pytest.mark.parametrize("most", [3, 1000])
@given(st.data())
@settings(deadline=None, max_examples=30)
def test_a_row_that_passes_is_in_a_wanted_substream(most: int, data) -> None:
    numbers = st.integers(-3, 3)
    comparison = st.builds("r.{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["<", "=", ">=", "!="]), numbers)
    null_test = st.builds("r.{} IS {}NULL".format, st.sampled_from("ab"), st.sampled_from(["", "NOT "]))
    conditions = st.recursive(
        comparison | null_test,
        lambda each: st.builds("({} {} {})".format, each, st.sampled_from(["AND", "OR"]), each),
        max_leaves=5,
    )
    texts = data.draw(st.lists(conditions, min_size=1, max_size=5))
    queries = [wanted_of(bound(f"SELECT a FROM r WHERE {each}"))["r"] for each in texts]
    split = split_of([each for wanted in queries for each in wanted], most)
    row = data.draw(st.fixed_dictionaries({"a": st.none() | numbers, "b": st.none() | numbers}))
    if split.subject is None:
        return
    value = row[split.subject.text.removeprefix("r.")]
    at = position(split, value)
    for condition, wanted in zip(texts, queries, strict=True):
        if passes(condition, row):
            assert at in split.interest(wanted)


def passes(condition: str, row: dict[str, int | None]) -> bool:
    """What SQL says of a condition, with None for unknown. Without NOT, unknown and false need not be told apart."""
    text = condition.replace("!=", "<>").replace(" = ", " == ").replace("<>", "!=")
    for name in "ab":
        text = text.replace(f"r.{name} IS NULL", str(row[name] is None))
        text = text.replace(f"r.{name} IS NOT NULL", str(row[name] is not None))
        text = text.replace(f"r.{name}", "NULL" if row[name] is None else f"({row[name]})")
    return bool(eval(text.replace("AND", "and").replace("OR", "or"), {"NULL": _Unknown()}))


class _Unknown:
    """NULL: every comparison with it is not true."""

    def __lt__(self, _other: object) -> bool:
        return False

    __ge__ = __lt__
    __eq__ = __lt__  # type: ignore[assignment]
    __ne__ = __lt__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def test_doubles_have_places_of_their_own() -> None:
    wanted = wanted_of(bound("SELECT x FROM r WHERE x > 0.5"))["r"]
    split = split_of(wanted)
    assert position(split, 0.5) not in split.interest(wanted)
    assert position(split, 0.75) in split.interest(wanted)
    assert position(split, float("nan")) in split.interest(wanted)
