"""Cycles of 4,000 transfers under the grid of chains: the network, each query by itself, and what others would do."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Any

from bench.charts import canvas
from bench.contest import ContestantFailed, PerCycle, per_cycle
from bench.network_measurements.arena import COLD, Arena, spread
from bench.network_measurements.found import Found, Printed, costs
from bench.network_measurements.tasks import Task
from bench.network_workloads.files import FED
from bench.network_workloads.query import WorkloadQuery
from bench.network_workloads.sets import SETS

_SET = "QIMQOSJPFed-Manual"
_RECORDS = 5

_SMALL = 10

#: Forms of queries in a set: where one of them is, and how many of the set it stands for. What Spark makes of a chain
#: depends on its number of records alone.
FORMS = {
    _SET: dict.fromkeys(range(0, 768, 192), 192),
    "QIEFed-Manual": dict.fromkeys(range(7), 1),
    "QAggreFed": {**dict.fromkeys(range(0, 240, 60), 60), 240: 80, 320: 30},
    "QIMQOSJPMed": {0: 138, 1: 138, 2: 138, 414: 31, 445: 30, 475: 30, 505: 30, 535: 30},
}

WEFT, ALONE = "weft, the network", "weft, sharing off"
AGAIN, DUCKDB, EACH = "Spark, SQL again", "DuckDB, SQL again", "Spark, a stream each"


def measure(arena: Arena) -> Found:
    queries = SETS[_SET].queries()
    weft = _weft(arena, queries)
    largest = max(weft)
    spent = {WEFT: weft[largest]["each"], ALONE: weft_alone(arena, spread(queries, arena.effort.alone), largest)}
    spent[AGAIN], spent[DUCKDB] = _again(arena, queries, largest)
    if arena.effort.quick:
        return _found(weft, spent, {}, "a quick run does not start streams that Spark may refuse")
    refused = spark_refuses(arena)
    each, note = _streams(arena, refused[_SET], largest)
    if each is not None:
        spent[EACH] = each
    return _found(weft, spent, refused, note)


def _weft(arena: Arena, queries: list[WorkloadQuery]) -> dict[int, dict[str, Any]]:
    """By number of queries: what a cycle takes, and its jobs."""
    sizes, cold = arena.effort.chain_sizes, COLD + arena.effort.settling
    folder = arena.rows_of(FED, arena.effort.settling + arena.effort.increments, FED.increment)
    tasks = [Task(f"{size} chains", FED.statement(folder), spread(queries, size)) for size in sizes]
    results = arena.run("weft_cycles", tasks)
    return {
        size: {
            "each": per_cycle(result["marks"], cold),
            "jobs": max(cycle["jobs"] for cycle in result["cycles"][cold:]),
            "first_cycle": result["cycles"][0],
            "settling_cpu": [later["cpu"] - each["cpu"] for each, later in pairwise(result["marks"][:cold])],
            "answers": sum(cycle["answers"] for cycle in result["cycles"]),
            "registering": result["registering"],
        }
        for size, result in zip(sizes, results, strict=True)
    }


def weft_alone(arena: Arena, sample: list[WorkloadQuery], total: int) -> PerCycle:
    """What a cycle takes if every query is computed by itself, incrementally all the same."""
    task = arena.task(f"{total} chains, each by itself", FED, sample, total=total, settings=["sharing = off"])
    (result,) = arena.run("weft_cycles", [task])
    return per_cycle(result["marks"], COLD).times(task.scale)


def _again(arena: Arena, queries: list[WorkloadQuery], total: int) -> tuple[PerCycle, PerCycle]:
    task = arena.table_task("SQL again", FED, spread(queries, arena.effort.again), total)
    return tuple(all_again(arena, contestant, task) for contestant in ("spark_again", "duckdb_again"))  # type: ignore[return-value]


def all_again(arena: Arena, contestant: str, task: Task) -> PerCycle:
    """A cycle that runs all SQL: the marks are before the first query and after the last one."""
    (result,) = arena.run(contestant, [task])
    marks = [result["marks"][0], result["marks"][-1]]
    return per_cycle(marks, 1).times(task.scale)


def spark_refuses(arena: Arena) -> dict[str, dict[str, str]]:
    """Why Spark does not run queries as streams, by set; one query stands for each form."""
    tasks = []
    for name in FORMS:
        stream = SETS[name].stream
        title = f"{name}, which are streams"
        tasks.append(arena.stream_task(title, stream, forms(name), arena.few_rows(stream), only_check=True))
    return {name: result["refused"] for name, result in zip(FORMS, arena.run("spark_each", tasks), strict=True)}


def forms(name: str) -> list[WorkloadQuery]:
    """One query of each form of a set."""
    queries = SETS[name].queries()
    return [queries[place] for place in FORMS[name]]


def refused_queries(refused: dict[str, dict[str, str]]) -> dict[str, int]:
    """How many queries of each set are refused, each form standing for its own."""
    return {
        name: sum(
            number for query, number in zip(forms(name), FORMS[name].values(), strict=True) if query.name in reasons
        )
        for name, reasons in refused.items()
    }


def _refused_share(refused: dict[str, dict[str, str]]) -> float:
    return sum(refused_queries(refused).values()) / sum(SETS[name].size for name in refused)


def _streams(arena: Arena, refused: dict[str, str], total: int) -> tuple[PerCycle | None, str]:
    """One streaming query each, for some of those that Spark takes; what it refuses does not count against it."""
    accepted = [query for query in forms(_SET) if query.name not in refused]
    if not accepted:
        return None, "Spark takes none of them"
    sample = spread(accepted, max(arena.effort.alone // 2, 1))
    try:
        (result,) = arena.run("spark_each", [arena.stream_task("a stream each", FED, sample, arena.rows(FED))])
    except ContestantFailed as reason:
        return None, str(reason).splitlines()[-1]
    runs = [per_cycle(marks, COLD) for marks in result["runs"]]
    share = len(accepted) / len(FORMS[_SET]) * total / len(runs)
    together = PerCycle(sum(each.cpu for each in runs), sum(each.wall for each in runs), runs[0].cycles)
    return together.times(share), ""


def _found(
    weft: dict[int, dict[str, Any]], spent: dict[str, PerCycle], refused: dict[str, dict[str, str]], note: str
) -> Found:
    largest, ours = max(weft), spent[WEFT]
    ratios = {
        "nonjoin_over_all_seconds": spent[ALONE].cpu / ours.cpu,
        "rerun_over_all_seconds": spent[AGAIN].cpu / ours.cpu,
        "spark_refused_share": _refused_share(refused) if refused else None,
        "jobs_per_cycle_10": float(weft[_SMALL]["jobs"]),
        "jobs_per_cycle_768": float(weft[largest]["jobs"]) if largest == 768 else None,
        "join_levels": float(_RECORDS - 1),
    }
    reasons = {} if largest == 768 else {"jobs_per_cycle_768": f"a quick run has {largest} queries at most"}
    reasons |= {} if refused else {"spark_refused_share": note}
    figure, panels = canvas(2, width=6.4)
    extrapolated = [name for name, each in spent.items() if each.scaled != 1]
    costs(panels[0], f"{largest} chains", {name: each.cpu for name, each in spent.items()}, extrapolated, ours=2)
    panels[1].plot(list(weft), [each["each"].cpu for each in weft.values()], "o-", label="CPU seconds per cycle")
    panels[1].plot(list(weft), [each["each"].wall for each in weft.values()], "o--", label="wall seconds per cycle")
    panels[1].plot(list(weft), [each["jobs"] for each in weft.values()], "s:", label="Spark jobs per cycle")
    panels[1].set(title="weft, the network", xlabel="queries", ylim=(0, None))
    panels[1].legend(frameon=False, fontsize=8)
    details = {
        "weft": {str(size): {**each, "each": asdict(each["each"])} for size, each in weft.items()},
        "spent": {name: asdict(each) for name, each in spent.items()},
        "refused": refused,
        "refused_queries": refused_queries(refused),
        "note": note,
    }
    return Found(
        ratios, [_sizes_table(weft), _contest_table(spent, largest)], {"network_chains": figure}, reasons, details
    )


def _sizes_table(weft: dict[int, dict[str, Any]]) -> Printed:
    return Printed(
        "Chains of transfers by weft, cycles of 4,000 records",
        ["queries", "CPU s per cycle", "wall s per cycle", "jobs per cycle", "s to register"],
        [[n, each["each"].cpu, each["each"].wall, each["jobs"], each["registering"]] for n, each in weft.items()],
    )


def _contest_table(spent: dict[str, PerCycle], queries: int) -> Printed:
    ours = spent[WEFT]
    return Printed(
        f"{queries} chains, one cycle",
        ["contestant", "CPU s", "times weft", "wall s", ""],
        [[name, each.cpu, each.cpu / ours.cpu, each.wall, _scaled(each)] for name, each in spent.items()],
        f"{EACH}: only what Spark takes as a stream",
    )


def _scaled(each: PerCycle) -> str:
    return "" if each.scaled == 1 else f"extrapolated from 1/{each.scaled:.3g} of the queries"
