"""How the cost grows with the number of queries, and with the number of different predicates.

What counts is the second half of the cycles, as it is against the limits: until then Java compiles what rows go
through, for a thousand queries more than for one, and the trees of ten thousand are made. The growth over all cycles
but the first two is shown beside it.

The same run takes up to a third more when the machine is at something else. One query and a thousand, which the growth
is told by, are run in several rounds by turns, and of each the median run counts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena, WeftRun

#: What the growth is told by.
_COMPARED = (1, 1_000)
_LITERALS = (9, 99, 999)
_QUERIES_WITH_LITERALS = 1_000


@dataclass(frozen=True)
class Flatness:
    by_size: dict[int, list[WeftRun]]
    """By the number of queries: as many as there were rounds, or one."""
    literals: dict[int, WeftRun]
    """Runs of a thousand queries, by the number of different constants in their predicates."""

    @property
    def runs(self) -> list[WeftRun]:
        """The median run of each size."""
        return [sorted(runs, key=lambda run: run.settled.cpu)[len(runs) // 2] for runs in self.by_size.values()]

    def growth(self, queries: int) -> float | None:
        """CPU at so many queries over CPU at one, when both have settled."""
        by_size = {run.queries: run.settled.cpu for run in self.runs}
        return by_size[queries] / by_size[1] if queries in by_size else None

    def early_growth(self, queries: int) -> float:
        """The same from the third cycle on, while Java still compiles."""
        by_size = {run.queries: run.spent.cpu for run in self.runs}
        return by_size[queries] / by_size[1]

    def compiled_growth(self, queries: int) -> float:
        """When both have settled, and without Java's compilers: what is left when a stream has run for hours."""
        by_size = {run.queries: run.settled.cpu - run.settled.compiling for run in self.runs}
        return by_size[queries] / by_size[1]

    def jobs(self, queries: int) -> float | None:
        return next((float(run.jobs_per_cycle) for run in self.runs if run.queries == queries), None)

    def ratios(self) -> dict[str, float | None]:
        return {
            "cpu_1000_over_1": self.growth(1_000),
            "cpu_10000_over_1": self.growth(10_000),
            "jobs_per_cycle_1": self.jobs(1),
            "jobs_per_cycle_1000": self.jobs(1_000),
        }

    def details(self) -> dict[str, Any]:
        return {
            "runs": [facts(run) for run in self.runs],
            "settled_cpu": {str(size): [run.settled.cpu for run in runs] for size, runs in self.by_size.items()},
            "growth_from_third_cycle": {str(run.queries): self.early_growth(run.queries) for run in self.runs},
            "growth_without_compilers": {str(run.queries): self.compiled_growth(run.queries) for run in self.runs},
            "by_literals": {str(number): facts(run) for number, run in self.literals.items()},
        }


def facts(run: WeftRun) -> dict[str, Any]:
    """What is kept of a run."""
    return {
        "queries": run.queries,
        **asdict(run.spent),
        "settled": asdict(run.settled),
        "answers": run.answers,
        "jobs_per_cycle": run.jobs_per_cycle,
        "peak_python_bytes": run.python_bytes,
        "most_partials": run.partials,
        "registering_seconds": run.registering,
        "cycle_seconds": [cycle["seconds"] for cycle in run.cycles],
    }


def measure(arena: Arena) -> Flatness:
    by_size: dict[int, list[WeftRun]] = {size: [] for size in arena.effort.sizes}
    for number in range(arena.effort.rounds):
        sizes = tuple(size for size in arena.effort.sizes if number == 0 or size in _COMPARED)
        # What was run for the first round serves other measurements too.
        for run in arena.wefts(arena.rows, sizes, **({"options": {"round": number}} if number else {})):
            by_size[run.queries].append(run)
    if arena.effort.quick:
        return Flatness(by_size, {})
    literals = {number: arena.weft(arena.rival_rows, _QUERIES_WITH_LITERALS, literals=number) for number in _LITERALS}
    return Flatness(by_size, literals)


def show(found: Flatness) -> None:
    columns = [
        "CPU s",
        "of it compilers",
        "wall s",
        "rows per CPU s",
        "answers",
        "Spark jobs per cycle",
        "partials kept",
        "Python MB",
    ]
    report.table(
        "weft by the number of queries: warm cycles, no sinks",
        ["queries", *columns, "settled: CPU over one query", "without Java's compilers", "from the third cycle on"],
        [
            [
                f"{run.queries:,}",
                *_row(run),
                found.growth(run.queries),
                found.compiled_growth(run.queries),
                found.early_growth(run.queries),
            ]
            for run in found.runs
        ],
    )
    if found.literals:
        report.table(
            f"{_QUERIES_WITH_LITERALS:,} queries by the number of different constants in their predicates",
            ["constants", *columns],
            [[f"{number:,}", *_row(run)] for number, run in found.literals.items()],
        )


def _row(run: WeftRun) -> list[object]:
    spent = run.spent
    size = run.python_bytes / 1e6
    return [
        spent.cpu,
        spent.compiling,
        spent.wall,
        spent.rows_per_cpu_second,
        run.answers,
        run.jobs_per_cycle,
        run.partials,
        size,
    ]


def draw(found: Flatness) -> dict[str, Figure]:
    return {"aggregates_flatness": pictures.flatness(found.runs)}
