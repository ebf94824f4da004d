"""Against the limits: what Spark needs for the rows alone, what the machine needs, and where the rest goes.

A cycle costs something by itself, whatever comes in it, so weft's share of a limit depends on how many rows a cycle
has. It is measured over sizes of cycles: a file is a cycle and a minute of event time, so more rows are a faster
stream, with as many partials and answers as before. All contestants read the same files. Those of a batch job are read
at once: it pays for its start once, and weft once for each file.

Both are measured warm, and the cheapest of three runs counts: of a batch job over 40 million rows, and of weft's cycles
in the second half, since Java takes some ten seconds of work to compile well what rows go through. A third of that half
has 40 million rows where cycles are largest. The share of the whole half is in the details.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena, WeftRun
from bench.contest import RUNS, Spent, warm_of

QUERIES = 1_000
_TINY_FILES, _TINY_ROWS = 60, 100


@dataclass(frozen=True)
class Limits:
    """Cycles of one size against the limits."""

    weft: WeftRun
    tiny: WeftRun
    """One query, and next to no rows: what a cycle costs by itself."""
    spark: dict[str, Spent]
    machine: Spent

    @cached_property
    def best(self) -> Spent:
        """The cheapest part of weft's second half."""
        return min(self.weft.stretches(RUNS), key=lambda each: each.cpu)

    def share(self, limit: Spent) -> float:
        """weft's rows per CPU second over those of a limit."""
        return self.best.rows_per_cpu_second / limit.rows_per_cpu_second

    @property
    def shares(self) -> dict[str, float]:
        """weft's share of each limit."""
        return {
            "one plain Spark batch": self.share(self.spark["aggregation"]),
            "the same with signatures": self.share(self.spark["with_signatures"]),
            "one process, pyarrow and Numba": self.share(self.machine),
        }

    def parts(self) -> dict[str, float]:
        """Where a cycle's CPU milliseconds go: Python and compilers by the run itself, the others by their own runs."""
        rows = self.weft.marks[-1].rows
        cycles = self.best.rows / rows
        per_cycle = {name: each.cpu_per_row * rows for name, each in self.spark.items()}
        alone = self.tiny.settled
        overhead = (alone.cpu - alone.python - alone.compiling) / (len(self.tiny.cycles) - self.tiny.cold_half)
        parts = {
            "scan": per_cycle["scan"],
            "aggregation by fragment and key": per_cycle["aggregation"] - per_cycle["scan"],
            "signatures in the aggregation": per_cycle["with_signatures"] - per_cycle["aggregation"],
            "Spark's overhead of a cycle": overhead,
            "Java's compilers": self.best.compiling / cycles,
            "Python: kernels, answers, state": self.best.python / cycles,
        }
        whole = self.best.cpu / cycles
        parts["not accounted for"] = whole - sum(parts.values())
        return {name: 1e3 * seconds for name, seconds in parts.items()}

    def details(self) -> dict[str, Any]:
        return {
            "weft": asdict(self.best),
            "weft, all of the second half": asdict(self.weft.settled),
            "share of all of the second half": self.weft.settled.rows_per_cpu_second
            / self.spark["aggregation"].rows_per_cpu_second,
            "spark": {name: asdict(each) for name, each in self.spark.items()},
            "machine": asdict(self.machine),
            "shares": self.shares,
            "milliseconds_of_a_cycle": self.parts(),
        }


@dataclass(frozen=True)
class LimitsBySize:
    by_rows: Mapping[int, Limits]
    """By the rows of a cycle, ascending."""

    @property
    def largest(self) -> Limits:
        return self.by_rows[max(self.by_rows)]

    def ratios(self) -> dict[str, float | None]:
        return {
            "spark_floor_share_1000": self.largest.share(self.largest.spark["aggregation"]),
            "machine_floor_share_1000": self.largest.share(self.largest.machine),
        }

    def details(self) -> dict[str, Any]:
        return {str(rows): each.details() for rows, each in self.by_rows.items()}


def measure(arena: Arena) -> LimitsBySize | None:
    """None where a thousand queries are left out."""
    if QUERIES not in arena.effort.sizes:
        return None
    tiny = arena.weft(arena.readings(_TINY_FILES, _TINY_ROWS), 1)
    return LimitsBySize({rows: _of_size(arena, files, rows, tiny) for files, rows in arena.effort.cycle_sizes})


def _of_size(arena: Arena, files: int, rows: int, tiny: WeftRun) -> Limits:
    report.progress(f"  cycles of {rows:,} rows")
    folder = arena.readings(files, rows)
    weft = arena.weft(folder, QUERIES)
    floor = arena.contest("spark_floor", arena.job("spark_floor", folder, QUERIES))
    machine = warm_of(arena.contest("machine_floor", arena.job("machine_floor", folder, QUERIES)))
    return Limits(weft, tiny, {name: Spent(**each) for name, each in floor.items()}, machine)


def show(found: LimitsBySize | None) -> None:
    if found is None:
        return
    report.table(
        f"{QUERIES:,} queries against the limits: millions of rows per CPU second, and weft's share of them",
        ["rows in a cycle", "weft", *_named(found.largest), *found.largest.shares],
        [
            [
                f"{rows:,}",
                each.best.rows_per_cpu_second / 1e6,
                *(limit.rows_per_cpu_second / 1e6 for limit in _named(each).values()),
                *each.shares.values(),
            ]
            for rows, each in found.by_rows.items()
        ],
    )
    for rows in (min(found.by_rows), max(found.by_rows)):
        parts = found.by_rows[rows].parts()
        whole = sum(parts.values())
        report.table(
            f"Where the CPU time of a cycle of {rows:,} rows goes",
            ["", "CPU ms", "share"],
            [[name, milliseconds, f"{milliseconds / whole:.0%}"] for name, milliseconds in parts.items()],
            "Python and compilers are measured in the run itself, the others in runs of their own",
        )


def _named(found: Limits) -> dict[str, Spent]:
    return {
        "Spark, reading alone": found.spark["scan"],
        "Spark, groupBy(fragment, key)": found.spark["aggregation"],
        "Spark, groupBy(fragment, signature, key)": found.spark["with_signatures"],
        "pyarrow and Numba": found.machine,
    }


def draw(found: LimitsBySize | None) -> dict[str, Figure]:
    if found is None:
        return {}
    shares = {rows: each.shares for rows, each in found.by_rows.items()}
    parts = {rows: found.by_rows[rows].parts() for rows in (min(found.by_rows), max(found.by_rows))}
    return {"aggregates_limits": pictures.limits(shares, parts)}
