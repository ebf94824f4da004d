"""What it is worth to infer selections from joins: examples Q1 and Q3, with and without, all else the same.

The source times its network, with and without inference, over 300,000 transfers and increments of 20,000 (its Data1 and
Data2; its other experiments have 4,000). So do we: the CPU in which nodes are evaluated and their rows taken into
memory, Spark's jobs included if there are any. Without inference, every transfer of the last weeks is kept and joined;
with it, those alone whose amount can matter.

A cycle has more to do than that: to read the rows, to start jobs, to commit, whatever there is to compute. So the whole
cycle stands beside it, from a run of its own. What a look-up by key and time leaves for inference to save there is
little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bench.contest import PerCycle, per_cycle
from bench.network_measurements.arena import Arena
from bench.network_measurements.found import Found, Printed
from bench.network_measurements.tasks import Task
from bench.network_workloads.fed_examples import fed_examples
from bench.network_workloads.files import FED

_CHOSEN = ("q1", "q3")
#: The source's increments for these two, how many of them there are, and the cycles that do not count: the history, the
#: increments until what is measured has changed the network, and one more.
_INCREMENT, _INCREMENTS, _COLD = 20_000, 12, 4


@dataclass(frozen=True)
class _Side:
    """A query with inference or without, by the means of warm cycles."""

    network_cpu: float
    cycle: PerCycle
    rows_kept: float
    pairs: float


def measure(arena: Arena) -> Found:
    return _left_out() if arena.effort.quick else _measured(arena)


def _left_out() -> Found:
    keys = [f"{kind}_{name}" for kind in ("ti_over_noti", "ti_over_noti_cycle") for name in _CHOSEN]
    return Found(
        dict.fromkeys(keys), reasons=dict.fromkeys(keys, "over a short history there is hardly anything to leave out")
    )


def _measured(arena: Arena) -> Found:
    queries = {query.name: query for query in fed_examples()}
    folder = arena.rows_of(FED, _INCREMENTS, _INCREMENT)
    tasks = [
        Task(f"{name}, {'without' if without else 'with'} inference", FED.statement(folder), [queries[name]],
             options={"without_inference": without, "time_network": time_network})
        for name in _CHOSEN for without in (False, True) for time_network in (False, True)
    ]  # fmt: skip
    results = arena.run("weft_cycles", tasks)
    sides = [_side(whole, network) for whole, network in zip(results[::2], results[1::2], strict=True)]
    pairs = dict(zip(_CHOSEN, zip(sides[::2], sides[1::2], strict=True), strict=True))
    return Found(
        {
            **{f"ti_over_noti_{name}": off.network_cpu / on.network_cpu for name, (on, off) in pairs.items()},
            **{f"ti_over_noti_cycle_{name}": off.cycle.cpu / on.cycle.cpu for name, (on, off) in pairs.items()},
        },
        [
            Printed(
                f"Inferred conditions, one query alone, a cycle of {_INCREMENT:,} records",
                ["query", "", "with", "without", "times"],
                [row for name, (on, off) in pairs.items() for row in _rows(name, on, off)],
            )
        ],
        details={name: {"with": asdict(on), "without": asdict(off)} for name, (on, off) in pairs.items()},
    )


def _side(whole: Mapping[str, Any], network: Mapping[str, Any]) -> _Side:
    """From a run of whole cycles, and one in which the network was timed."""
    warm: Sequence[Mapping[str, Any]] = network["cycles"][_COLD:]

    def mean(what: str) -> float:
        return fmean(cycle[what] for cycle in warm)

    rows_kept = fmean(whole["rows_kept"][_COLD:])
    return _Side(mean("network_cpu"), per_cycle(whole["marks"], _COLD), rows_kept, mean("pairs"))


def _rows(name: str, on: _Side, off: _Side) -> list[list[object]]:
    compared = {
        "CPU s of the network": (on.network_cpu, off.network_cpu),
        "CPU s of the whole cycle": (on.cycle.cpu, off.cycle.cpu),
        "rows kept": (on.rows_kept, off.rows_kept),
        "pairs looked at": (on.pairs, off.pairs),
    }
    return [[name, what, one, other, other / one if one else None] for what, (one, other) in compared.items()]
