"""JOIN … USING has the columns and rows that DuckDB gives it."""

from __future__ import annotations

import duckdb
import pytest

from tests.oracle_script import Script

STREAMS = {
    "a": ("n BIGINT, k BIGINT, j BIGINT, x BIGINT", [(1, 1, 5, 10), (2, 2, 5, 20), (3, 1, 6, 30), (4, None, 5, 40)]),
    "b": ("m BIGINT, k BIGINT, j BIGINT, y BIGINT", [(1, 1, 5, 7), (2, 1, 6, 8), (3, 3, 5, 9), (4, None, 6, 9)]),
    "c": ("o BIGINT, k BIGINT, z BIGINT", [(1, 1, 100), (2, 2, 200), (3, 1, 300)]),
}


@pytest.mark.parametrize(
    ("columns", "joined"),
    [
        ("k, x, y", "a{w} JOIN b{w} USING (k)"),
        ("k, j, x, y", "a{w} JOIN b{w} USING (k, j)"),
        ("k, a.j, b.j AS i, z", "a{w} JOIN b{w} USING (k) JOIN c{w} USING (k)"),
        ("*", "(SELECT k, x FROM a){w} AS a JOIN (SELECT y, k FROM b){w} AS b USING (k) JOIN c{w} USING (k)"),
        ("b.*, x", "(SELECT n, k, x FROM a){w} AS a JOIN b{w} USING (k) WHERE k > 0 AND b.k < 9"),
        ("k + 1 AS l, a.k + b.k AS both", "a{w} JOIN b{w} USING (k)"),
    ],
)
def test_using_is_that_of_duckdb(columns: str, joined: str) -> None:
    script, duck = Script(), duckdb.connect()
    for name, (schema, rows) in STREAMS.items():
        clock = schema.split()[0]
        script.run(f"CREATE STREAM {name} ({schema}) WATERMARK FOR {clock} AS {clock} USING memory")
        duck.execute(f"CREATE TABLE {name} ({schema})")
        duck.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    script.run(f"CREATE CONTINUOUS QUERY q AS SELECT {columns} FROM {joined.format(w=' [RANGE UNBOUNDED]')}")
    expected = duck.execute(f"SELECT {columns} FROM {joined.format(w='')}")
    assert [field.name for field in script.query("q").relation.fields] == [each[0] for each in expected.description]
    found = script.cycle(**{name: rows for name, (_, rows) in STREAMS.items()})["q"]
    assert sorted(found, key=repr) == sorted(expected.fetchall(), key=repr)


def test_columns_of_using_come_first_in_their_order() -> None:
    """As in Spark and in the standard; DuckDB leaves them where they are in the left input."""
    script = Script()
    for name in ("a", "b"):
        clock = STREAMS[name][0].split()[0]
        script.run(f"CREATE STREAM {name} ({STREAMS[name][0]}) WATERMARK FOR {clock} AS {clock} USING memory")
    script.run("CREATE CONTINUOUS QUERY q AS SELECT * FROM a [RANGE UNBOUNDED] JOIN b [RANGE UNBOUNDED] USING (j, k)")
    assert [field.name for field in script.query("q").relation.fields] == ["j", "k", "n", "x", "m", "y"]
