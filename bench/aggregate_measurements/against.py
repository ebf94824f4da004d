"""Against what else one could do, at ten and a hundred queries: Spark's own streams, Flink, DuckDB and Polars.

Where a hundred queries would take an hour, some of them, spread evenly by range/slide, stand for all, and the figure
says so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena
from bench.aggregate_measurements.data import write_csv
from bench.aggregate_measurements.jobs import Job
from bench.aggregate_measurements.workload import spread_sample
from bench.contest import COLD, ContestantFailed, Spent, warm_of

SIZES = (10, 100)
WEFT = "weft"
EACH, UNION = "Spark, a query each", "Spark, one union"
FLINK, DUCKDB, POLARS = "Flink, HOP windows", "DuckDB, recomputed", "Polars, recomputed"
_UNION_SIZE = 100
_FLIGHT_FILES = 12
_FLIGHT_SIZE = 100


@dataclass(frozen=True)
class Against:
    spent: dict[int, dict[str, Spent]]
    """By number of queries and contestant."""
    flights: dict[str, Spent]
    notes: dict[str, Any]

    def over_weft(self, contestant: str, queries: int) -> float | None:
        """CPU per row of a contestant over weft's."""
        return over(self.spent[queries], contestant)

    def ratios(self) -> dict[str, float | None]:
        return {
            "spark_each_over_weft_10": self.over_weft(EACH, 10),
            "spark_each_over_weft_100": self.over_weft(EACH, 100),
            "spark_union_over_weft_100": self.over_weft(UNION, 100),
            "flink_over_weft_10": self.over_weft(FLINK, 10),
            "flink_over_weft_100": self.over_weft(FLINK, 100),
        }

    def details(self) -> dict[str, Any]:
        return {
            "readings": {str(size): _as_facts(spent) for size, spent in self.spent.items()},
            "flights": _as_facts(self.flights),
            "notes": self.notes,
        }


def over(spent: dict[str, Spent], contestant: str) -> float | None:
    if contestant not in spent:
        return None
    return spent[contestant].cpu_per_row / spent[WEFT].cpu_per_row


def _as_facts(spent: dict[str, Spent]) -> dict[str, Any]:
    return {name: {**asdict(each), "over_weft": over(spent, name)} for name, each in spent.items()}


def measure(arena: Arena) -> Against:
    notes: dict[str, Any] = {}
    wefts = arena.wefts(arena.rival_rows, SIZES)
    spent = {run.queries: {WEFT: run.spent} for run in wefts}
    for size in SIZES:
        spent[size] |= _spark(arena, size, notes)
        if not arena.effort.quick or size == SIZES[-1]:
            again = arena.job("duckdb_again", arena.rival_rows, size)
            spent[size][DUCKDB] = warm_of(arena.contest("duckdb_again", again))
            if arena.has_polars:
                job = arena.job("polars_again", arena.rival_rows, size)
                spent[size][POLARS] = warm_of(arena.contest("polars_again", job))
        # Flink alone takes longer than a quick run may.
        if arena.flink_python is not None and not arena.effort.quick:
            spent[size] |= _flink(arena, size, arena.flink_python, notes)
    flights = {} if arena.effort.quick else _flights(arena)
    return Against(spent, flights, notes)


def _spark(arena: Arena, size: int, notes: dict[str, Any]) -> dict[str, Spent]:
    effort = arena.effort
    # A quick run has time for one of the stores.
    options = {"stores": ["hdfs"]} if effort.quick else {}
    job = arena.job("spark_each", arena.rival_rows, size, checks=effort.checks, options=options)
    if effort.quick and size != SIZES[0]:
        # There is no time to measure twice: the sample of the hundred would be other queries of the same kind.
        smaller = notes[f"{EACH}, {SIZES[0]}"]["each"]
        return {EACH: Spent(**smaller).times(size)}
    sampled = _sampled(job, effort.sample)
    result = arena.contest("spark_each", sampled)
    each = warm_of(result).times(1 / len(sampled.queries()))
    notes[f"{EACH}, {size}"] = {"store": result["store"], "stores": result["stores"], "each": asdict(each)}
    found = {EACH: replace(each.times(size), scaled=size / len(sampled.queries()))}
    if size == _UNION_SIZE and not effort.quick:
        union = _sampled(arena.job("spark_union", arena.rival_rows, size), effort.sample)
        factor = size / len(union.queries())
        found[UNION] = warm_of(arena.contest("spark_union", union)).times(factor)
    return found


def _sampled(job: Job, sample: int) -> Job:
    """The same job for a sample of its queries, if they are more."""
    queries = job.queries()
    return job if len(queries) <= sample else replace(job, numbers=spread_sample(queries, sample))


def _flink(arena: Arena, size: int, python: str, notes: dict[str, Any]) -> dict[str, Spent]:
    """Windows without reading: text is dearer to read than Parquet, and Flink is not to pay for that.

    Nothing, if it cannot run so many, or if so few rows were read that the difference is lost in the noise.
    """
    rows, files = arena.rival_rows, arena.effort.rival_files
    small = arena.small("readings")
    texts = {name: arena.folder / f"{name}.csv" for name in ("half", "all", "small")}
    options: dict[str, Any] = {name: str(path) for name, path in texts.items()}
    options["half_rows"] = write_csv(rows, texts["half"], files // 2)
    options["all_rows"] = write_csv(rows, texts["all"], files)
    write_csv(small, texts["small"], len(list(small.iterdir())))
    try:
        result = arena.contest("flink_hops", arena.job("flink_hops", rows, size, options=options), python)
    except ContestantFailed as reason:
        report.progress(f"  {reason}")
        notes[f"{FLINK}, {size}"] = str(reason).splitlines()[-1]
        return {}
    notes[f"{FLINK}, {size}"] = result
    windows, reading = Spent(**result["windows"]), Spent(**result["reading"])
    cpu = windows.cpu - reading.cpu
    return {FLINK: Spent(cpu, windows.wall, windows.rows)} if cpu > 0 else {}


def _flights(arena: Arena) -> dict[str, Spent]:
    rows = arena.flights(_FLIGHT_FILES)
    found = {WEFT: arena.weft(rows, _FLIGHT_SIZE, topic="flights").spent}
    each = _sampled(
        arena.job("spark_each", rows, _FLIGHT_SIZE, topic="flights", checks=arena.effort.checks), arena.effort.sample
    )
    found[EACH] = warm_of(arena.contest("spark_each", each)).times(_FLIGHT_SIZE / len(each.queries()))
    again = arena.job("duckdb_again", rows, _FLIGHT_SIZE, topic="flights")
    found[DUCKDB] = warm_of(arena.contest("duckdb_again", again))
    return found


def show(found: Against) -> None:
    for size, spent in found.spent.items():
        _show(f"{size} queries over readings", spent)
    if found.flights:
        _show(f"{_FLIGHT_SIZE} queries over the flights out of New York, {_FLIGHT_FILES} batches", found.flights)


def _show(title: str, spent: dict[str, Spent]) -> None:
    report.table(
        f"{title}: the same rows and answers, batches after the first {COLD}",
        ["contestant", "CPU µs per row", "rows per CPU s", "times weft", ""],
        [
            [
                name,
                each.cpu_per_row * 1e6,
                each.rows_per_cpu_second,
                over(spent, name),
                "" if each.scaled == 1 else f"extrapolated from 1/{each.scaled:.3g} of the queries",
            ]
            for name, each in spent.items()
        ],
        "Flink: without reading its input, and all but the first half of it" if FLINK in spent else "",
    )


def draw(found: Against) -> dict[str, Figure]:
    return {"aggregates_against": pictures.against(found.spent, found.flights)}
