"""Names and texts of users are data: whatever they look like, answers are the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run

pytestmark = pytest.mark.spark

#: Texts that mean something to Spark's parser, to a format string, to a path, or to weft.
TEXTS = (
    *("${env:HOME}", "${spark:spark.app.name}", "${system:user.dir}", "${x}", "$1", "{}", "{0}", "%s", "%(a)s", "%"),
    *("'", "''", '"', "`", "``", "\\", "\\\\", "\\'", "\\n", "\\u0041", "\\0", "--", "/*", "*/", ";", "a;b"),
    *("../..", "/etc/passwd", "a.b", ".", "..", "*", "a b", " a", "a ", "", " ", "\n", "\t", "a\nb", "\r\n", "\x00"),
    *("NULL", "null", "true", "1", "-0", "1e3", "SELECT", "select", "x'00'", "[bold]b[/bold]", "<b>", "&amp;"),
    *("é", "e\u0301", "ß", "ẞ", "İ", "ı", "Ⅷ", "а", "a\u200b", "\u202eb", "\ufeff", "😀", "\U0010ffff", "ﬁ"),
    *("g1.1", "weft_1", "s0", "c0", "t0", "k0", "a0", "g", "k", "n0", "reason", "stream", "cell", "none", "rows", "_"),
    *("_corrupt", "_clock", "_arrival", "_before", "_stream", "_tick", "_cell", "last", "hash", "at", "query", "row"),
    *("clock", "T1", "_sampled", "_probed", "_row"),
)

#: Those that can be the name of a column; names that differ in case alone are one name.
NAMES = tuple(each for each in TEXTS if each and each != "\x00")


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def named(name: str) -> str:
    """A name as SQL."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Hostile:
    """A script whose names and texts are hostile, and the rows of its streams and its table in two cycles."""

    script: str
    rows: Sequence[dict[str, list[tuple[object, ...]]]]
    table: str
    loaded: list[tuple[object, ...]]


def _queries(names: Sequence[str], texts: Sequence[str], streams: Sequence[str], table: str) -> list[tuple[str, bool]]:
    """Selects with every construct, and whether its answers may be read by others."""
    s, r = named(streams[0]), named(streams[1])
    n, v, w = named(names[0]), named(names[1]), named(names[2])
    x, y = (named(each) for each in names[3:5])
    a, b, c = (literal(each) for each in texts[:3])
    listed = ", ".join(map(literal, texts))
    t = named(table)
    return [
        (f"SELECT {n}, {v} AS {x}, {a} AS {y} FROM {s} WHERE {v} IN ({listed})", True),
        (f"SELECT {n}, {v} FROM {s} WHERE {v} = {a} OR {w} < {b} OR {v} >= {c}", False),
        (f"SELECT {n}, CASE WHEN {v} = {b} THEN {a} WHEN {w} = {c} THEN {v} ELSE {b} END AS {x} FROM {s}", False),
        (f"SELECT {n}, {v} LIKE {literal(like(texts[0]))} AS {x}, {w} LIKE '%' AS {y} FROM {s}", False),
        (f"SELECT {n}, {v} || {a} || {w} AS {x}, UPPER({v}) AS {y} FROM {s} WHERE {v} <> {c}", False),
        (f"SELECT {v} AS {x}, COUNT(*) AS {y}, MAX({w}) AS m FROM {s} [ROWS 8 SLIDE 4] GROUP BY {v}", False),
        (f"SELECT {v}, MIN({w}) AS {x} FROM {s} [ROWS 8] GROUP BY {v} HAVING MIN({w}) <> {a}", False),
        (f"SELECT {v} || {a} AS {x}, COUNT({w}) AS {y} FROM {s} WHERE {w} <> {b} GROUP BY {v} || {a}", False),
        (f"SELECT {v}, MEDIAN(LENGTH({w})) AS {x} FROM {s} [ROWS 8] WHERE {v} <> {c} GROUP BY {v}", False),
        (f"SELECT COUNT(DISTINCT {v}) AS {x} FROM {s} [ROWS 8 SLIDE 8] WHERE {v} || {b} <> {a}", False),
        (
            f"SELECT {x}.{v} AS {y}, {y}.{w} AS {x} FROM {s} [ROWS 6] AS {x}, {r} [ROWS 6] AS {y} "
            f"WHERE {x}.{v} = {y}.{v} AND {y}.{w} <> {a}",
            False,
        ),
        (f"SELECT {s}.{n}, {t}.{w} AS {x} FROM {s}, {t} WHERE {s}.{v} = {t}.{v} AND {t}.{w} <> {c}", False),
        (f"SELECT DISTINCT {v}, {a} AS {x} FROM {s} [ROWS 8]", False),
        (f"SELECT {v} FROM {s} [ROWS 8] UNION SELECT {w} FROM {r} [ROWS 8]", False),
        (f"SELECT {v} FROM {s} [ROWS 8] EXCEPT SELECT {v} FROM {r} [ROWS 8] WHERE {w} <> {b}", False),
    ]


def like(text: str) -> str:
    """A pattern that begins and ends with any characters; a `\\` escapes the next one."""
    return "%" + text.replace("\\", "\\\\") + "_%"


def case_of(
    names: Sequence[str],
    texts: Sequence[str],
    objects: Sequence[str],
    cycles: Sequence[Sequence[list[tuple[object, ...]]]],
    loaded: list[tuple[object, ...]],
) -> Hostile:
    """Streams and a table with columns of these names, a view, and queries of every kind, shared and not."""
    *streams, table, view = objects
    columns = f"({named(names[0])} BIGINT, {named(names[1])} STRING, {named(names[2])} STRING)"
    clock = named(names[0])
    script = [
        *(
            f"CREATE STREAM {named(each)} {columns} WATERMARK FOR {clock} AS {clock} - 3 USING memory"
            for each in streams
        ),
        f"CREATE TABLE {named(table)} ({named(names[1])} STRING, {named(names[2])} STRING) USING memory",
        f"CREATE VIEW {named(view)} AS SELECT {clock}, {named(names[1])} AS {named(names[4])} FROM {named(streams[0])} "
        f"WHERE {named(names[2])} <> {literal(texts[1])}",
        f"CREATE CONTINUOUS QUERY {named('over the view')} AS SELECT {named(names[4])}, COUNT(*) AS {named(names[3])} "
        f"FROM {named(view)} [ROWS 4] GROUP BY {named(names[4])}",
    ]
    shown = "".join(each for each in texts[0] if each.isprintable())
    for number, (select, is_read) in enumerate(_queries(names, texts, streams, table)):
        for sharing in ("", "SHARING OFF"):
            own = f"{number} {shown} {sharing}"
            script.append(f"CREATE CONTINUOUS QUERY {named(own)} {sharing} AS {select}")
            if is_read:
                above = f"SELECT {named(names[3])} AS {named(names[4])} FROM {named(own)}"
                script.append(f"CREATE CONTINUOUS QUERY {named(f'over {own}')} {sharing} AS {above}")
    return Hostile(";\n".join(script), [dict(zip(streams, each, strict=True)) for each in cycles], table, loaded)


@st.composite
def hostile(draw: DrawFn) -> Hostile:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=5, max_size=5, unique_by=str.lower))
    # The oracle finds streams and tables by their names in small letters.
    shown = [each for each in NAMES if each.strip() and each.isprintable() and each == each.lower()]
    objects = draw(st.lists(st.sampled_from(shown), min_size=4, max_size=4, unique_by=str.lower))
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=3, max_size=6, unique=True))
    value = st.sampled_from([*texts, *texts, *TEXTS]) | st.none()
    cycles = []
    for number in range(2):
        clock = st.integers(12 * number, 12 * number + 12)
        cycles.append([draw(st.lists(st.tuples(clock, value, value), min_size=4, max_size=12)) for _ in range(2)])
    return case_of(names, texts, objects, cycles, draw(st.lists(st.tuples(value, value), min_size=1, max_size=5)))


def disagreement(spark: SparkSession, case: Hostile) -> str:
    """How the engine differs from the oracle, or nothing."""
    with TemporaryDirectory(prefix="weft-hostile-") as directory:
        run = Run(spark, Path(directory))
        try:
            run.execute(case.script)
            run.load(**{case.table: case.loaded})
            return "\n".join(filter(None, (run.take(**cycle) for cycle in case.rows)))
        finally:
            run.close()


#: What collided, or was taken for something else: columns called like the engine's, and texts that Spark replaced.
WORST = case_of(
    ("n", "_clock", "${env:HOME}", "`c0`", "_corrupt"),
    ("${env:HOME}", "it's", "a\\", "%s\n{}"),
    ("g1.1", "../..", "a.b", "SELECT"),
    [
        [
            [(1, "${env:HOME}", "it's"), (2, "a\\", "${env:HOME}"), (3, "it's", None), (2, "%s\n{}", "a\\")],
            [(1, "it's", "a\\"), (4, "${env:HOME}", "é"), (5, None, "it's")],
        ],
        [
            [(13, "a\\", "e\u0301"), (14, "é", "é"), (14, "e\u0301", "it's"), (20, "x${env:HOME}y", "b")],
            [(12, "e\u0301", "\x00"), (15, "a\\", ""), (21, "", "it's")],
        ],
    ],
    [("${env:HOME}", "b"), ("it's", "a\\"), ("é", "c"), (None, "d")],
)


def test_the_worst_names_and_texts_give_the_oracles_answers(spark: SparkSession) -> None:
    assert disagreement(spark, WORST) == ""


@pytest.mark.prove
@given(case=hostile())
@settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_hostile_names_and_texts_give_the_oracles_answers(spark: SparkSession, case: Hostile) -> None:
    assert disagreement(spark, case) == ""
