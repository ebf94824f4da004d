"""What the tests of predicates share: conditions from text, rows to hold them against, and truth by the oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cache

from tests.oracle_expressions import Scope, holds
from weft.algebra import Expression, Select, Value
from weft.predicates.clauses import PredicateSet, predicate_set
from weft.predicates.inference import EFFORT, entails_disjunction
from weft.predicates.normal_forms import conjunctive_form
from weft.sql import NamesInMemory, parse, read
from weft.sql.relation_binder import bind_relation
from weft.sql.statements import Create

#: Values that comparisons turn on, by type; NULL is one for every type.
VALUES: Mapping[str, tuple[Value, ...]] = {
    "TINYINT": (0, 1, -1, 5, 127, -128),
    "INT": (0, 1, -1, 2, 3, 5, 10, 2147483647, -2147483648, 2147483640),
    "BIGINT": (0, 1, -1, 2, 7, 100, 9223372036854775807, -9223372036854775808, 1 << 53, (1 << 53) + 1),
    "DECIMAL(10, 2)": tuple(map(Decimal, ("0.00", "0.01", "0.50", "-0.50", "1.25", "99999999.99", "-99999999.99"))),
    "DECIMAL(38, 10)": tuple(
        map(Decimal, ("0E-10", "0.5000000000", "-2.0000000001", "9999999999999999999999999999.0"))
    ),
    "FLOAT": (0.0, -0.0, 0.5, -1.5, math.inf, math.nan),
    "DOUBLE": (0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 1e308, math.inf, -math.inf, math.nan),
    "STRING": ("", "a", "b", "B", "ab", "a_b", " a ", "1", "é"),
    "BOOLEAN": (True, False),
    "DATE": (date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 2)),
    "TIMESTAMP": (0, 5_000_000, 86_400_000_000, 1_704_067_207_500_000, (1 << 63) - 1, -(1 << 63)),
}

#: Three columns of every type, i1 to i3 for INT and so on.
LETTERS = dict(zip(VALUES, ["y", "i", "l", "d", "w", "f", "x", "s", "b", "c", "t"], strict=True))
COLUMNS = {f"{letter}{n}": type_ for type_, letter in LETTERS.items() for n in (1, 2, 3)}


@cache
def _names(statement: str) -> NamesInMemory:
    names = NamesInMemory()
    for text in statement.split(";"):
        created = read(text, names)
        assert isinstance(created, Create)
        names.add(created.definition)
    return names


def stream_text(name: str, columns: Mapping[str, str]) -> str:
    listed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
    watermark = "WATERMARK FOR clock AS clock - 0"
    return f"CREATE STREAM {name} (clock BIGINT, {listed}) {watermark} USING parquet OPTIONS (path 'x')"


def select(where: str, inputs: str = "s", streams: str = stream_text("s", COLUMNS)) -> Select:
    """A select over inputs without windows, bound."""
    listed = ", ".join(f"{each} [RANGE UNBOUNDED]" for each in inputs.split(", "))
    if "," not in listed:
        listed = inputs
    relation = bind_relation(parse(f"SELECT 1 AS one FROM {listed} WHERE {where}"), _names(streams))
    assert isinstance(relation, Select)
    return relation


def condition(where: str, inputs: str = "s", streams: str = stream_text("s", COLUMNS)) -> Expression:
    bound = select(where, inputs, streams).where
    assert bound is not None
    return bound


def dense(where: str, inputs: str = "s") -> PredicateSet:
    """A condition over columns a to e that are DECIMALs with many decimals: numbers as the papers have them."""
    columns = dict.fromkeys("abcde", "DECIMAL(12, 6)")
    return conjunctive_form(condition(where, inputs, stream_text("s", columns)))


def whole(where: str, inputs: str = "s") -> PredicateSet:
    """A condition over columns a to e that are INTs."""
    return conjunctive_form(condition(where, inputs, stream_text("s", dict.fromkeys("abcde", "INT"))))


def texts(predicates: PredicateSet) -> list[str]:
    """The disjunctions of a predicate set as texts, without the name of the only input."""
    return [each.text.replace("s.", "") for each in predicates.disjunctions]


def is_true(expression: Expression | None, row: Mapping[str, Value], alias: str = "s") -> bool:
    return holds(expression, Scope({(alias, name): value for name, value in row.items()}))


def entails(predicates: PredicateSet, others: PredicateSet, effort: int = EFFORT) -> bool:
    """Whether the second set is found to be TRUE wherever the first is."""
    return all(entails_disjunction(predicates, each, effort) for each in others.disjunctions)


def union(*sets: PredicateSet) -> PredicateSet:
    """All that the sets demand."""
    return predicate_set(each for predicates in sets for each in predicates.disjunctions)


def difference(whole: PredicateSet, done: PredicateSet) -> PredicateSet:
    """What of the first set does not follow from the second."""
    return predicate_set([each for each in whole.disjunctions if not entails_disjunction(done, each)])
