"""`weft warm-up`: what later starts need not do again."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from weft.cli.output import Failure, JsonOption, failing_clearly, print_json, print_text
from weft.loom import Loom

#: Some of everything that cycles do, so that Spark loads what it needs for it.
_STATEMENTS = """
CREATE STREAM readings (at TIMESTAMP, sensor STRING, value DOUBLE)
  WATERMARK FOR at AS at - INTERVAL 1 SECOND USING parquet OPTIONS (path '{path}', maxFilesPerTrigger '1');
CREATE CONTINUOUS QUERY windowed AS
  SELECT sensor, AVG(value), STDDEV(value), MAX(value), COUNT(*) FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS]
  WHERE value > 1 GROUP BY sensor;
CREATE CONTINUOUS QUERY running AS SELECT sensor, MEDIAN(value) FROM readings [RANGE UNBOUNDED] GROUP BY sensor;
CREATE CONTINUOUS QUERY chosen AS SELECT sensor, value FROM readings WHERE value > 2;
CREATE CONTINUOUS QUERY joined AS
  SELECT a.sensor, b.value FROM readings [RANGE 2 SECONDS] AS a, readings [RANGE 2 SECONDS] AS b
  WHERE a.sensor = b.sensor AND a.value < b.value;
"""


def warm_up(as_json: JsonOption = False) -> None:
    """Compile kernels and archive Spark's classes, once, so that later starts take about half the time."""
    from weft.runtime.failures.errors import EngineError
    from weft.runtime.spark.class_archive import archive, make_archive

    path = archive()
    with failing_clearly(as_json):
        try:
            make_archive(path, _run_some_queries)
        except (EngineError, OSError) as error:
            raise Failure(str(error)) from None
    if as_json:
        print_json({"ok": True, "archive": str(path), "bytes": path.stat().st_size})
    else:
        print_text(f"kernels are compiled, Spark's classes are archived ({path.stat().st_size / 1e6:.0f} MB)")


def _run_some_queries(settings: dict[str, str]) -> None:
    with TemporaryDirectory(prefix="weft-warm-up-") as folder:
        rows = Path(folder, "rows")
        rows.mkdir()
        _write_rows(rows)
        with Loom.open(Path(folder, "project")) as loom:
            loom.execute(_STATEMENTS.format(path=rows))
            loom.start(settings=settings, until_idle=True)
            loom.wait()


def _write_rows(folder: Path) -> None:
    """Two files with a few seconds of readings each."""
    from datetime import datetime, timedelta

    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in range(2):
        seconds = range(10 * file, 10 * file + 10)
        columns = {
            "at": [datetime(2000, 1, 1) + timedelta(seconds=second) for second in seconds],
            "sensor": [f"s{second % 3}" for second in seconds],
            "value": [float(second % 7) for second in seconds],
        }
        pq.write_table(pa.table(columns), folder / f"{file}.parquet")
