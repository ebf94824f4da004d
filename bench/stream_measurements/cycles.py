"""A process that runs one project with many streams, and measures its cycles.

    python -m bench.stream_measurements.cycles FOLDER STREAMS FORMAT KIND

Each stream has twenty columns and one query: a selection, or a windowed aggregate. Files are there from the beginning,
and a cycle takes one of each stream. In the first cycles every stream has one; after them only the first stream has. It
prints one line of JSON: seconds and CPU seconds of each cycle, and the most that was used of Java's heap.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bench import report
from weft.loom import Loom
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session

SELECTION, WINDOW = "selections", "windows"
#: Cycles in which every stream has rows; and after these, cycles in which one of them has.
ALL_CYCLES, ONE_CYCLES = 4, 8
ROWS = 10
_TYPES = ("BIGINT", "DOUBLE", "STRING", "INT")
_COLUMNS = 19


def main(folder: Path, streams: int, format_: str, kind: str) -> None:
    for number in range(streams):
        _write(folder / f"s{number}", format_, ALL_CYCLES + (0 if number else ONE_CYCLES))
    spark = session("local[2]")
    java: Any = spark.sparkContext._jvm
    marks: list[dict[str, float]] = []
    with Loom.open(folder / "project") as loom:
        loom.execute(";\n".join(_statements(folder, streams, format_, kind)))
        before = time.monotonic(), report.cpu_seconds()

        def told(progress: Progress) -> None:
            nonlocal before
            # What Spark does between two cycles counts as well.
            now = time.monotonic(), report.cpu_seconds()
            marks.append({"seconds": now[0] - before[0], "cpu": now[1] - before[1], "rows": progress.rows})
            before = now

        loom.start(until_idle=True, on_progress=told)
        loom.wait()
        answers = sum(loom.results(f"q{number}").num_rows for number in range(streams))
    peak = sum(
        pool.getPeakUsage().getUsed()
        for pool in java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        if pool.getType().toString() == "Heap memory"
    )
    print(json.dumps({"cycles": marks, "answers": answers, "heap_mb": peak / 1e6}), flush=True)


def _statements(folder: Path, streams: int, format_: str, kind: str) -> Iterator[str]:
    columns = ", ".join(f"c{at} {_TYPES[at % len(_TYPES)]}" for at in range(_COLUMNS))
    header = ", header 'true'" if format_ == "csv" else ""
    for number in range(streams):
        yield (
            f"CREATE STREAM s{number} (n BIGINT, {columns}) WATERMARK FOR n AS n USING {format_} "
            f"OPTIONS (path '{folder / f's{number}'}', maxFilesPerTrigger '1'{header})"
        )
        asked = f"n, c0, c1, c2 FROM s{number} WHERE c0 >= 0"
        if kind == WINDOW:
            asked = f"c2, SUM(c0) AS x FROM s{number} [RANGE {2 * ROWS} SLIDE {ROWS}] GROUP BY c2"
        yield f"CREATE CONTINUOUS QUERY q{number} AS SELECT {asked}"


def _write(folder: Path, format_: str, files: int) -> None:
    folder.mkdir(parents=True)
    for file in range(files):
        path = folder / f"{file:04d}.{format_}"
        table = pa.table(dict(_values(file)))
        if format_ == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        elif format_ == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pyarrow.parquet.write_table(table, path)
        # Spark takes files in the order in which they were written.
        os.utime(path, (1_700_000_000 + file,) * 2)


def _values(file: int) -> Iterator[tuple[str, pa.Array]]:
    yield "n", pa.array(range(file * ROWS, (file + 1) * ROWS), pa.int64())
    arrow: Mapping[str, pa.DataType] = dict(
        zip(_TYPES, (pa.int64(), pa.float64(), pa.string(), pa.int32()), strict=True)
    )
    for at in range(_COLUMNS):
        type_ = _TYPES[at % len(_TYPES)]
        values = [row + at for row in range(ROWS)]
        yield f"c{at}", pa.array([f"k{value % 3}" for value in values] if type_ == "STRING" else values, arrow[type_])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
