"""How long registering takes when there are very many queries already: chains drawn at random, one after the other."""

from __future__ import annotations

from statistics import median
from time import process_time

from matplotlib.figure import Figure

from bench import report
from bench.charts import WEFT, canvas
from bench.network_measurements.fed_statistics import statistics_of
from bench.network_measurements.found import Found, Printed
from bench.network_workloads.fed_chains import uniform
from bench.network_workloads.files import FED
from bench.network_workloads.sets import bound_one_by_one
from lab.join_sharing import weighted_size
from weft.algebra import Select
from weft.optimizer.network.planner import Planner
from weft.plan.canonical import normalised
from weft.plan.log_ids import LogId, LogKind

_NEIGHBOURS = 50
_EARLY = 100


def left_out() -> Found:
    key = "register_10000th_over_100th"
    return Found({key: None}, reasons={key: "a quick run has no time for ten thousand queries"})


def found(seconds: list[float], size: int) -> Found:
    """What `registered` gave, as a table and a chart."""
    count = len(seconds)
    early, late = around(seconds, _EARLY), around(seconds, count)
    table = Printed(
        f"Registering {count:,} chains drawn at random",
        ["query", "milliseconds"],
        [[f"number {_EARLY}", early * 1e3], [f"number {count:,}", late * 1e3], ["all together", sum(seconds) * 1e3]],
        "binding the SQL and planning, without measuring what conditions keep; medians of a hundred neighbours",
    )
    return Found(
        {"register_10000th_over_100th": late / early},
        [table],
        {"network_registration": _chart(seconds)},
        details={
            "early": early,
            "late": late,
            "count": count,
            "late_over_early": late / early,
            "all": sum(seconds),
            "qns": size,
        },
    )


def registered(count: int, rows: int) -> tuple[list[float], int]:
    """CPU seconds of each, and the weighted size of the network in the end."""
    statistics = statistics_of(FED, rows)
    planner = Planner(statistics)
    seconds: list[float] = []
    queries = bound_one_by_one(FED, uniform(count))
    while len(seconds) < count:
        began, asking = process_time(), statistics.seconds
        query = next(queries)
        select = normalised(query.relation)
        assert isinstance(select, Select)
        planner.register(query.name, select, [LogId(LogKind.STREAM, "fed")] * len(select.inputs))
        seconds.append(process_time() - began - (statistics.seconds - asking))
        if len(seconds) % 1_000 == 0:
            report.progress(f"  {len(seconds):,} registered")
    return seconds, weighted_size(planner.network)


def around(seconds: list[float], number: int) -> float:
    """The median near a query, so that one pause does not count."""
    return median(seconds[max(number - _NEIGHBOURS, 0) : number + _NEIGHBOURS])


def _chart(seconds: list[float]) -> Figure:
    figure, (panel,) = canvas(1, width=7.0)
    step = max(len(seconds) // 100, 1)
    places = range(0, len(seconds) - step + 1, step)
    panel.plot([place + step for place in places], [median(seconds[p : p + step]) * 1e3 for p in places], color=WEFT)
    panel.set(title="Registering one more query", xlabel="queries so far", ylabel="CPU ms, median", ylim=(0, None))
    return figure
