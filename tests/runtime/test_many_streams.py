"""Several streams of all kinds of sources, most of which have no rows in a cycle, beside the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from tests.oracle import LATE
from tests.oracle_script import Script
from tests.runtime.projects import run_to_the_end, write_rows
from tests.runtime.workload_run import values_of
from tests.support.peers import arrow_table, difference
from weft.algebra import Value
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.state.commits import last_commit

pytestmark = pytest.mark.spark

Rows = Mapping[str, Sequence[tuple[Value, ...]]]

#: Streams share types, but not the order of columns: a value in the slot of another stream would be seen.
COLUMNS = {
    "j": "n BIGINT, k STRING, v BIGINT, w DOUBLE",
    "c": "a STRING, n BIGINT, b STRING, m DOUBLE",
    "p": "x DOUBLE, n BIGINT, flag BOOLEAN, k STRING, y BIGINT",
    "o": "k STRING, y BIGINT, n BIGINT",
}
FORMATS = {"j": "json", "c": "csv", "p": "parquet", "o": "orc"}

QUERIES = """
    CREATE CONTINUOUS QUERY all_j AS SELECT n, k, v, w FROM j;
    CREATE CONTINUOUS QUERY some_c AS SELECT b, a, m FROM c WHERE m > 1;
    CREATE CONTINUOUS QUERY sums_p AS SELECT k, SUM(x) AS s, COUNT(*) AS c FROM p [RANGE 20 SLIDE 10] GROUP BY k;
    CREATE CONTINUOUS QUERY sums_j AS SELECT k, MAX(w) AS m FROM j [RANGE 10 SLIDE 10] WHERE v > 1 GROUP BY k;
    CREATE CONTINUOUS QUERY met AS SELECT j.v, p.y, p.flag FROM j [RANGE 15], p [RANGE 15] WHERE j.k = p.k;
    CREATE CONTINUOUS QUERY kinds AS SELECT DISTINCT a FROM c RETAIN UNBOUNDED;
    CREATE CONTINUOUS QUERY every_key AS SELECT k FROM j WHERE v > 2 UNION ALL SELECT k FROM o;
    CREATE CONTINUOUS QUERY medians AS SELECT MEDIAN(y) AS m FROM o [RANGE 10 SLIDE 10]
"""

#: What each cycle brings; rows of 2 and 3 in the last but one are late for all windows of their stream.
CYCLES: Sequence[Rows] = (
    {"j": [(1, "a", 1, 0.5), (2, "b", 3, -1.5)], "p": [(1.5, 1, True, "a", 7), (2.5, 4, None, "b", 8)]},
    {"c": [("x", 1, "y", 0.5), ("x", 2, None, 2.5), (None, 3, "z", 4.0)]},
    {"j": [(11, "a", 5, 2.0)], "o": [("q", 4, 1), ("r", 6, 2)]},
    {"p": [(0.25, 22, False, "a", 9)]},
    {"o": [(None, 1, 15)], "c": [("x", 9, "w", 8.0)], "j": [(23, "b", 2, None)]},
    {"p": [(9.0, 2, True, "b", 1), (4.0, 41, True, "a", 3)], "j": [(30, None, 4, 1.0)]},
    {"j": [(55, "a", 9, 0.0)], "c": [("v", 30, "u", 1.5)], "p": [(1.0, 60, True, "a", 2)], "o": [("t", 2, 40)]},
)


def _statement(name: str, source: str) -> str:
    return f"CREATE STREAM {name} ({COLUMNS[name]}) WATERMARK FOR n AS n USING {source}"


class _Project:
    """A loom over files, and an oracle that gets the same rows."""

    def __init__(self, loom: Loom, data: Path) -> None:
        self._loom = loom
        self._data = data
        self.oracle = Script()
        self._expected: dict[str, list[tuple[Value, ...]]] = {}

    def declare(self, names: Sequence[str]) -> None:
        for name in names:
            (self._data / name).mkdir(parents=True)
            self._loom.execute(_statement(name, f"{FORMATS[name]} OPTIONS (path '{self._data / name}')"))
            self.oracle.run(_statement(name, "memory"))

    def ask(self, queries: str) -> None:
        self._loom.execute(queries)
        self.oracle.run(queries)

    def arrive(self, cycle: int, rows: Rows) -> None:
        """Write a file for each stream that has rows, and give them to the oracle."""
        named = {
            name: [
                dict(zip([field.name for field in self.oracle.oracle.streams[name].fields], row, strict=True))
                for row in arrived
            ]
            for name, arrived in rows.items()
        }
        for name, arrived in named.items():
            table = arrow_table(self.oracle.oracle.streams[name], arrived, "UTC").rename_columns(list(arrived[0]))
            path = self._data / name / f".{cycle}"
            match FORMATS.get(name, "json"):
                case "json":
                    write_rows(self._data / name, f"{cycle}.json", arrived)
                    continue
                case "csv":
                    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(include_header=False))
                case "parquet":
                    pyarrow.parquet.write_table(table, path)
                case "orc":
                    pyarrow.orc.write_table(table, path)
            path.rename(path.with_name(f"{cycle}.{FORMATS[name]}"))
        for name, answers in self.oracle.oracle.cycle(named, {}).items():
            self._expected.setdefault(name, []).extend(answers)

    def differences(self) -> str:
        found = []
        for query in self._loom.catalog.queries():
            actual = values_of(self._loom.results(query.name), query.relation)
            found.append(difference(query.relation, self._expected.get(query.name, []), actual))
        return "".join(found)


def test_answers_over_many_kinds_of_files_through_crashes(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    project = _Project(loom, tmp_path / "data")
    project.declare("jcpo")
    project.ask(QUERIES)
    crashes = {2: "commit", 3: "ingest", 5: "rename"}
    for cycle, rows in enumerate(CYCLES):
        project.arrive(cycle, rows)
        if cycle in crashes:
            engine = Engine(spark, loom.catalog, state_directory(loom.directory), on_step=_crash(crashes[cycle]))
            engine.start(until_idle=True)
            with pytest.raises(EngineError, match="the end of the process"):
                engine.wait()
        run_to_the_end(loom)
    assert project.differences() == ""
    commit = last_commit(loom.directory)
    assert commit is not None
    assert commit.cycle == len(CYCLES) - 1
    late = {name: Counter(letter.reason for letter in project.oracle.dead_letters(name))[LATE] for name in "jcpo"}
    assert {name: state.late for name, state in commit.streams.items()} == late


def test_answers_over_files_beside_a_dataframe_from_python(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    """The DataFrame is registered before a stream of files, which is nevertheless read by a plan of its own."""
    project = _Project(loom, tmp_path / "data")
    (tmp_path / "data" / "f").mkdir(parents=True)
    frame = spark.readStream.schema("v BIGINT, k STRING, n BIGINT").json(str(tmp_path / "data" / "f"))
    loom.stream("f", frame, clock="n", watermark="0")
    project.oracle.run("CREATE STREAM f (v BIGINT, k STRING, n BIGINT) WATERMARK FOR n AS n USING memory")
    project.declare("pj")
    project.ask(
        """CREATE CONTINUOUS QUERY all_f AS SELECT k, n, v FROM f;
        CREATE CONTINUOUS QUERY sums AS SELECT k, SUM(v) AS s FROM f [RANGE 10 SLIDE 10] GROUP BY k;
        CREATE CONTINUOUS QUERY all_p AS SELECT x, n, k, y FROM p;
        CREATE CONTINUOUS QUERY all_j AS SELECT w, v, k, n FROM j"""
    )
    cycles: Sequence[Rows] = (
        {"f": [(1, "a", 1), (2, "b", 2)]},
        {"p": [(0.5, 3, None, "c", 4)]},
        {"f": [(3, "a", 12)], "j": [(5, "d", 6, 7.0)]},
        {"f": [(4, None, 25)], "p": [(1.5, 30, True, "e", 5)], "j": [(31, "g", 1, None)]},
    )
    for cycle, rows in enumerate(cycles):
        project.arrive(cycle, rows)
        run_to_the_end(loom)
    assert project.differences() == ""


def _crash(at: str) -> Callable[[str, int], None]:
    def step(name: str, cycle: int) -> None:
        if name == at:
            raise RuntimeError("the end of the process")

    return step
