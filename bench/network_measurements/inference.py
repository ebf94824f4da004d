"""What it is worth to infer selections from joins: examples Q1 and Q3, with and without, all else the same.

Without inference, every transfer of the last weeks is joined; with it, those alone whose amount can matter. A cycle of
one query is mostly what every cycle costs, whatever there is to compute: to read the rows, to start jobs, to commit. So
increments are large, and beside the whole cycle stands what the network itself takes in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from statistics import fmean
from typing import Any, TypeVar

from bench.network_measurements.arena import COLD, Arena
from bench.network_measurements.contest import Task, per_cycle
from bench.network_measurements.found import Found, Printed
from bench.network_workloads.fed_examples import fed_examples
from bench.network_workloads.files import FED

_CHOSEN = ("q1", "q3")

T = TypeVar("T")


def measure(arena: Arena) -> Found:
    return _left_out() if arena.effort.quick else _measured(arena)


def _left_out() -> Found:
    keys = [f"{kind}_{name}" for kind in ("ti_over_noti", "ti_over_noti_network") for name in _CHOSEN]
    return Found(
        dict.fromkeys(keys), reasons=dict.fromkeys(keys, "over a short history there is hardly anything to leave out")
    )


def _measured(arena: Arena) -> Found:
    queries = {query.name: query for query in fed_examples()}
    folder = arena.many_rows(FED)
    tasks = [
        Task(f"{name}, {'without' if without else 'with'} inference", FED.statement(folder), [queries[name]],
             options={"without_inference": without})
        for name in _CHOSEN for without in (False, True)
    ]  # fmt: skip
    results = arena.run("weft_cycles", tasks)
    cycles, networks = _pairs([per_cycle(each["marks"], COLD) for each in results]), _pairs(map(_network_cpu, results))
    rows: list[list[object]] = []
    for name in _CHOSEN:
        on, off = cycles[name]
        rows.append([name, "the whole cycle", on.cpu, off.cpu, off.cpu / on.cpu])
        rows.append([name, "the network in it", *networks[name], networks[name][1] / networks[name][0]])
    return Found(
        {
            **{f"ti_over_noti_{name}": off.cpu / on.cpu for name, (on, off) in cycles.items()},
            **{f"ti_over_noti_network_{name}": off / on for name, (on, off) in networks.items()},
        },
        [
            Printed(
                f"Inferred conditions, one query alone, CPU s per cycle of {arena.effort.selection_rows:,} records",
                ["query", "", "with", "without", "times"],
                rows,
            )
        ],
        details={
            name: {
                "with": {**asdict(on), "network_cpu": networks[name][0]},
                "without": {**asdict(off), "network_cpu": networks[name][1]},
            }
            for name, (on, off) in cycles.items()
        },
    )


def _pairs(results: Iterable[T]) -> dict[str, tuple[T, T]]:
    """By query, what was found with inference and without."""
    listed = list(results)
    return dict(zip(_CHOSEN, zip(listed[::2], listed[1::2], strict=True), strict=True))


def _network_cpu(result: Mapping[str, Any]) -> float:
    """The mean of the warm cycles."""
    return fmean(cycle["network_cpu"] for cycle in result["cycles"][COLD:])
