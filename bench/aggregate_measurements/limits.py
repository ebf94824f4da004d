"""Against the limits: what Spark needs for the rows alone, what the machine needs, and where the rest goes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import charts
from bench.aggregate_measurements.arena import Arena, WeftRun
from bench.aggregate_measurements.contest import Spent, warm_of

QUERIES = 1_000
_TINY_FILES, _TINY_ROWS = 12, 100


@dataclass(frozen=True)
class Limits:
    weft: WeftRun
    tiny: WeftRun
    """One query, and next to no rows: what a cycle costs by itself."""
    spark: dict[str, Spent]
    machine: Spent

    def share(self, limit: Spent) -> float:
        """weft's rows per CPU second over those of a limit."""
        return self.weft.spent.rows_per_cpu_second / limit.rows_per_cpu_second

    def ratios(self) -> dict[str, float | None]:
        return {
            "spark_floor_share_1000": self.share(self.spark["aggregation"]),
            "machine_floor_share_1000": self.share(self.machine),
        }

    def parts(self) -> dict[str, float]:
        """Where a cycle's CPU milliseconds go. Python is measured; so are the others, each in a run by itself."""
        cycles, rows = len(self.weft.warm_cycles), self.weft.spent.rows
        per_cycle = {name: each.cpu_per_row * rows / cycles for name, each in self.spark.items()}
        overhead = (self.tiny.spent.cpu - self.tiny.spent.python) / len(self.tiny.warm_cycles)
        python = self.weft.spent.python / cycles
        parts = {
            "scan": per_cycle["scan"],
            "aggregation by fragment and key": per_cycle["aggregation"] - per_cycle["scan"],
            "signatures in the aggregation": per_cycle["with_signatures"] - per_cycle["aggregation"],
            "Spark's overhead of a cycle": overhead,
            "Python: kernels, answers, state": python,
        }
        whole = self.weft.spent.cpu / cycles
        parts["not accounted for"] = whole - sum(parts.values())
        return {name: 1e3 * seconds for name, seconds in parts.items()}

    def details(self) -> dict[str, Any]:
        return {
            "weft": asdict(self.weft.spent),
            "spark": {name: asdict(each) for name, each in self.spark.items()},
            "spark_with_signatures_share": self.share(self.spark["with_signatures"]),
            "machine": asdict(self.machine),
            "milliseconds_of_a_cycle": self.parts(),
        }


def measure(arena: Arena) -> Limits | None:
    """None where a thousand queries are left out."""
    if QUERIES not in arena.effort.sizes:
        return None
    weft = arena.weft(arena.rows, QUERIES)
    tiny = arena.weft(arena.readings(_TINY_FILES, _TINY_ROWS), 1)
    floor = arena.contest("spark_floor", arena.job("spark_floor", arena.rows, QUERIES))
    machine = warm_of(arena.contest("machine_floor", arena.job("machine_floor", arena.rows, QUERIES)))
    return Limits(weft, tiny, {name: Spent(**each) for name, each in floor.items()}, machine)


def show(found: Limits | None) -> None:
    if found is None:
        return
    rows: list[list[object]] = [["weft", found.weft.spent.rows_per_cpu_second, None]]
    named = {
        "Spark, reading alone": found.spark["scan"],
        "Spark, batch groupBy(fragment, key)": found.spark["aggregation"],
        "Spark, batch groupBy(fragment, signature, key)": found.spark["with_signatures"],
        "one process, pyarrow and Numba": found.machine,
    }
    rows += [[name, each.rows_per_cpu_second, found.share(each)] for name, each in named.items()]
    report.table(f"{QUERIES:,} queries against the limits", ["", "rows per CPU s", "weft's share of it"], rows)
    whole = sum(found.parts().values())
    report.table(
        "Where a cycle's CPU time goes",
        ["", "CPU ms", "share"],
        [[name, milliseconds, f"{milliseconds / whole:.0%}"] for name, milliseconds in found.parts().items()],
        "Python is measured in the run itself, the others in runs of their own; what they miss is the last line",
    )


def draw(found: Limits | None) -> dict[str, Figure]:
    return {} if found is None else {"aggregates_limits": charts.parts(found.parts())}
