"""Aggregates: kept up to date and not computed again; shared; and over diseases whose ranges do not overlap."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from bench.charts import canvas
from bench.contest import PerCycle, per_cycle
from bench.network_measurements.arena import COLD, Arena, spread
from bench.network_measurements.chains import all_again
from bench.network_measurements.found import Found, Printed, costs
from bench.network_measurements.tasks import Task
from bench.network_workloads.fed_examples import fed_group_pairs, fed_groupings
from bench.network_workloads.files import FED, MED, RecordStream
from bench.network_workloads.query import WorkloadQuery
from bench.network_workloads.sets import SETS

#: A few groupings are quickly kept up to date, and quickly computed again: both are measured when Java is warm.
_INCREMENTS, _COLD = 20, 8


@dataclass(frozen=True)
class OnAndOff:
    """What a cycle takes with sharing and without; without it a sample stands for all."""

    queries: int
    shared: PerCycle
    alone: PerCycle
    jobs: int

    @property
    def gain(self) -> float:
        return self.alone.cpu / self.shared.cpu


def measure(arena: Arena) -> Found:
    return _left_out() if arena.effort.quick else _measured(arena)


def _left_out() -> Found:
    keys = (
        "incremental_aggregation_gain",
        "incremental_aggregation_gain_350",
        "shared_aggregates_gain_350",
        "med_aggregates_gain",
    )
    reason = "a quick run has too few rows, and no time to start hundreds of aggregates"
    return Found(dict.fromkeys(keys), reasons=dict.fromkeys(keys, reason))


def _measured(arena: Arena) -> Found:
    sets = {
        "over transfers": on_and_off(arena, FED, "QAggreFed"),
        "over discharges": on_and_off(arena, MED, "QAggreMed"),
    }
    # A cycle costs something by itself, which decides where there is little to do, as with the four of the source.
    kept, again = _kept_and_again(arena, "fifteen groupings", fed_groupings())
    kept_few, few_again = _kept_and_again(arena, "four groupings", fed_group_pairs())
    transfers = sets["over transfers"]
    all_fed = SETS["QAggreFed"].queries()
    task = arena.table_task("QAggreFed again", FED, spread(all_fed, arena.effort.again), len(all_fed))
    fed_again = all_again(arena, "spark_again", task)
    gain = fed_again.cpu / transfers.shared.cpu
    rows: list[list[object]] = [
        ["fifteen groupings", kept.cpu, again.cpu, again.cpu / kept.cpu, "all again by Spark"],
        ["four groupings", kept_few.cpu, few_again.cpu, few_again.cpu / kept_few.cpu, "all again by Spark"],
        [f"{len(all_fed)} over transfers", transfers.shared.cpu, fed_again.cpu, gain, "… extrapolated"],
    ]
    rows += [
        [f"{each.queries} {name}", each.shared.cpu, each.alone.cpu, each.gain, "each by itself, extrapolated"]
        for name, each in sets.items()
    ]
    figure, panels = canvas(3, width=5.0)
    costs(panels[0], "Fifteen groupings", {"kept up to date": kept.cpu, "again by Spark": again.cpu})
    for panel, (name, each) in zip(panels[1:], sets.items(), strict=True):
        spent = {"shared": each.shared.cpu, "by itself": each.alone.cpu}
        if each is transfers:
            spent["again by Spark"] = fed_again.cpu
        costs(panel, f"{each.queries} {name}", spent, [other for other in spent if other != "shared"])
    return Found(
        {
            "incremental_aggregation_gain": again.cpu / kept.cpu,
            "incremental_aggregation_gain_350": gain,
            "shared_aggregates_gain_350": sets["over transfers"].gain,
            "med_aggregates_gain": sets["over discharges"].gain,
        },
        [Printed("Aggregates, CPU seconds per cycle of 4,000 records", ["", "weft", "otherwise", "times", ""], rows)],
        {"network_aggregates": figure},
        details={
            "kept": asdict(kept),
            "again": asdict(again),
            "four groupings kept": asdict(kept_few),
            "four groupings again": asdict(few_again),
            "over transfers again": asdict(fed_again),
            **{name: asdict(each) for name, each in sets.items()},
        },
    )


def _kept_and_again(arena: Arena, name: str, queries: list[WorkloadQuery]) -> tuple[PerCycle, PerCycle]:
    """What a cycle takes that keeps some aggregates up to date, and what Spark takes to compute all of them again."""
    folder = arena.rows_of(FED, _INCREMENTS, FED.increment)
    (result,) = arena.run("weft_cycles", [Task(name, FED.statement(folder), queries)])
    task = arena.table_task(f"{name} again", FED, queries, len(queries), warm=_COLD)
    return per_cycle(result["marks"], _COLD), all_again(arena, "spark_again", task)


def on_and_off(arena: Arena, stream: RecordStream, name: str) -> OnAndOff:
    """The set with sharing, and a sample of it without."""
    queries = SETS[name].queries()
    sample = spread(queries, arena.effort.alone)
    on, off = arena.run(
        "weft_cycles",
        [
            arena.task(f"{name}, shared", stream, queries),
            arena.task(f"{name}, each by itself", stream, sample, total=len(queries), settings=["sharing = off"]),
        ],
    )
    alone = per_cycle(off["marks"], COLD).times(len(queries) / len(sample))
    jobs = max(cycle["jobs"] for cycle in on["cycles"][COLD:])
    return OnAndOff(len(queries), per_cycle(on["marks"], COLD), alone, jobs)
