"""A driver process for the memory proof: many rows through twenty queries, and how much memory it has each cycle.

    python -m tests.runtime.memory_driver <directory> <rows>

Prints one JSON object per cycle: rows so far, and the resident memory of Python and Java in megabytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from weft.loom import Loom
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session

ROWS_PER_CYCLE = 200_000

STREAM = (
    "CREATE STREAM numbers (timestamp TIMESTAMP, value BIGINT) WATERMARK FOR timestamp AS timestamp "
    f"USING `rate-micro-batch` OPTIONS (rowsPerBatch '{ROWS_PER_CYCLE}', advanceMillisPerBatch '1000')"
)


def queries() -> list[str]:
    """Twenty queries of every kind of state: windows of many lengths, groups, joins, running aggregates, DISTINCT."""
    windows = [
        f"SELECT value % {groups} AS g, COUNT(*) AS c, AVG(value) AS mean, MAX(value) AS top "
        f"FROM numbers [RANGE {seconds} SECONDS SLIDE {slide} SECONDS] WHERE value % 7 <> {seconds} "
        f"GROUP BY value % {groups}"
        for seconds, slide, groups in [
            (1, 1, 10), (2, 1, 10), (3, 1, 100), (4, 2, 10), (5, 5, 1000), (2, 2, 3), (3, 3, 7), (4, 4, 50),
            (1, 1, 1000), (2, 1, 5), (3, 1, 2), (5, 1, 4), (4, 1, 9), (2, 2, 10000),
        ]
    ]  # fmt: skip
    return [
        *windows,
        "SELECT value % 100 AS g, COUNT(*) AS c, SUM(value) AS s FROM numbers GROUP BY value % 100",
        "SELECT COUNT(*) AS c, STDDEV_SAMP(value) AS d FROM numbers [RANGE UNBOUNDED]",
        "SELECT value FROM numbers WHERE value % 100000 = 0",
        "SELECT DISTINCT value % 1000 AS v FROM numbers RETAIN 5 SECONDS",
        "SELECT a.value FROM numbers a [RANGE 2 SECONDS], numbers b [RANGE 2 SECONDS] "
        "WHERE a.value = b.value AND a.value % 1000 = 1",
        "SELECT value % 10 AS g FROM numbers [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY value % 10 EXCEPT "
        "SELECT value % 10 AS g FROM numbers [RANGE 1 SECOND SLIDE 1 SECOND] WHERE value % 10 < 5 GROUP BY value % 10",
    ]


def resident(process: int | str) -> float:
    """The resident memory of a process, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    return int(kilobytes) / 1024


def java_process(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def main(directory: Path, rows: int) -> None:
    spark = session("local[2]", {"spark.driver.memory": "1g"})
    java = java_process(spark)
    seen = 0
    with Loom.open(directory) as loom:

        def sample(progress: Progress) -> None:
            nonlocal seen
            seen += progress.rows
            print(json.dumps({"rows": seen, "python": resident("self"), "java": resident(java)}), flush=True)
            if seen >= rows:
                loom.stop()

        loom.execute(STREAM)
        for number, select in enumerate(queries()):
            loom.execute(f"CREATE CONTINUOUS QUERY q{number} AS {select}")
        loom.start(on_progress=sample)
        loom.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
