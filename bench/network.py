"""Selections, joins and aggregates that queries share: how small the network is, and what a cycle of it costs.

    python -m bench.network [--quick] [--only NAME]

The workloads are in `bench/network_workloads/`, the measurements and contestants in `bench/network_measurements/`. The
size of the network is that of all 768 queries always. What could not be measured, or would mislead over so few rows, is
null in the last line, and the results say why.

A quick run, of at most a minute, has a history of 10,000 transfers, 10 chains, and one query that stands for
all where each is computed by itself or again. It plans while weft and Spark work, in one process and one session, with
Java's quick compiler alone. It leaves out

    inference, aggregates      over a short history there is hardly anything to save
    what Spark refuses         a stream would have to be started for every form of query
    10,000 registrations, and the fifth configuration of the network, which no figure is for
    flights and weather        no figure of the last line is from there
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench import report
from bench.contest import ContestantFailed
from bench.network_measurements import (
    aggregates,
    chains,
    flights,
    inference,
    planning,
    selections,
)
from bench.network_measurements.arena import FULL, QUICK, Arena
from bench.network_measurements.found import Found

DEFINITIONS = {
    "qns_768_all": "weighted size of the network of 768 chains, everything shared (less is better)",
    "qns_768_matchplan": "the same if the best plan of each query alone is matched with what is there",
    "qns_768_noncanon": "the same if conditions are compared as they are written",
    "qns_768_nonjoin": "the same if joins are not shared",
    "nonjoin_over_all_seconds": "CPU per cycle of 4,000 records with every query by itself, over that of the network, "
    "at the largest number of queries; extrapolated from some of them",
    "rerun_over_all_seconds": "CPU of running all SQL again with Spark over history and increment, over that of the "
    "network; extrapolated",
    "spark_refused_share": "the share of chains, examples, aggregates and medical queries that Spark does not run as "
    "a stream; one query tried for each form",
    "ti_over_noti_q1": "CPU of evaluating the network in a cycle of 20,000 records of example Q1 without inferred "
    "conditions, over that with them: what the source's table has",
    "ti_over_noti_q3": "the same for Q3",
    "ti_over_noti_cycle_q1": "the same for Q1, of whole cycles: with reading rows, starting jobs and committing",
    "ti_over_noti_cycle_q3": "the same for Q3",
    "incremental_aggregation_gain": "CPU of computing fifteen groupings again with Spark, over keeping them up to "
    "date; none can be made from another, so that they share no more than the rows they read",
    "incremental_aggregation_gain_350": "the same for 350 aggregates over transfers, over a cycle that keeps them up "
    "to date together: with what sharing gains; extrapolated",
    "shared_aggregates_gain_350": "CPU per cycle of 350 aggregates over transfers each by itself, over that of all "
    "together; extrapolated",
    "med_aggregates_gain": "the same for 450 aggregates over discharges",
    "selections_1000_over_10_cpu": "CPU per batch of 1,000 selections over that of 10 (less is better)",
    "spark_each_over_weft_100_selections": "CPU per batch of 100 selections as a Spark stream each, over weft's",
    "register_10000th_over_100th": "CPU of registering the ten-thousandth query over that of the hundredth",
    "jobs_per_cycle_10": "Spark jobs in a warm cycle, at most, with 10 chains",
    "jobs_per_cycle_768": "the same with 768",
    "join_levels": "joins above each other in the longest chain",
}

#: So many measurements of a quick run go on at a time: one plans, one has weft and Spark work.
_LANES = 2

MEASUREMENTS: dict[str, Callable[[Arena], Found]] = {
    "planning": planning.measure,
    "chains": chains.measure,
    "selections": selections.measure,
    "inference": inference.measure,
    "aggregates": aggregates.measure,
    "flights": flights.measure,
}


def main() -> None:
    quick, only = report.quick_and_only_from_arguments("The network of shared selections and joins.", MEASUREMENTS)
    chosen = {name: each for name, each in MEASUREMENTS.items() if only in (None, name)}
    ratios: dict[str, float | None] = dict.fromkeys(DEFINITIONS)
    details: dict[str, Any] = {"definitions": DEFINITIONS, "reasons": {}, "seconds": {}}
    with TemporaryDirectory(prefix="weft-bench-network-") as folder:
        arena = Arena(Path(folder), QUICK if quick else FULL)
        # A quick run plans while weft and Spark work; CPU seconds bear that. In a full run nothing disturbs what is
        # measured.
        with closing(arena), ThreadPoolExecutor(_LANES if quick else 1) as lanes:
            running = {name: lanes.submit(_timed, name, measure, arena) for name, measure in chosen.items()}
            for name, found in running.items():
                _take(name, found, arena, ratios, details)
        details["answers_compared"] = arena.compared
    for key, ratio in ratios.items():
        if ratio is None:
            details["reasons"].setdefault(key, "not measured in this run")
    report.finish("network" if only is None else f"network_{only}", ratios, details, quick)


def _timed(name: str, measure: Callable[[Arena], Found], arena: Arena) -> tuple[Found, float]:
    report.progress(f"{name} …")
    began = perf_counter()
    return measure(arena), perf_counter() - began


def _take(
    name: str,
    running: Future[tuple[Found, float]],
    arena: Arena,
    ratios: dict[str, float | None],
    details: dict[str, Any],
) -> None:
    """Wait for a measurement, and put what it has found to the rest."""
    try:
        found, details["seconds"][name] = running.result()
    except ContestantFailed as reason:
        # What was measured before, and comes after, is not lost by it.
        report.progress(f"{name} has failed: {reason}")
        details[name] = {"failed": str(reason)}
        return
    for table in found.tables:
        table.show()
    for chart, figure in found.charts.items():
        report.save_chart(figure, chart, arena.effort.quick)
    ratios |= found.ratios
    details["reasons"] |= found.reasons
    details[name] = found.details


if __name__ == "__main__":
    main()
