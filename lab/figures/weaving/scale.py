"""A million queries, ten thousand queries, and one more query.

Slides are factors of 100,000 and overlap factors go up to 10,000, evenly drawn, as in Shein and Chrysanthis, who report
plans for a million queries with F1 and for 550 with a bit set. Planning begins with two arrays of ranges and slides and
ends with a plan. The million is planned in a process of its own, so that its memory is that of planning alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter, process_time

from bench import report
from lab.weaving.costings import Costing, by_operations, by_overlap, by_printed
from lab.weaving.plans import weave
from lab.weaving.workloads import collapse_table, draw_table, factor_slides

MILLION, HUNDRED_THOUSAND, TEN_THOUSAND = 1_000_000, 100_000, 10_000

_LARGEST_SLIDE, _MOST_OVERLAP = 100_000, 10_000
_RATE = Fraction(100)

#: The papers' two, and the one that chooses among all kernels, tree by tree.
PAPERS = ("overlap factor", "printed Ω of SlickDeque (Non-Inv)")
COSTINGS: dict[str, Callable[[], Costing]] = {
    PAPERS[0]: by_overlap,
    PAPERS[1]: lambda: by_printed("slickdeque_noninv"),
    "true Ω, cheapest of all kernels": by_operations,
}


@dataclass(frozen=True, slots=True)
class Planned:
    """One plan for many queries."""

    queries: int
    costing: str
    seconds: float
    cpu_seconds: float
    """Where it is less than the seconds of the clock, others used the machine too."""
    peak_gigabytes: float
    distinct: int
    trees: int
    cost: float


def measure(quick: bool) -> list[Planned]:
    sizes = (TEN_THOUSAND, HUNDRED_THOUSAND if quick else MILLION)
    return [each for size in sizes for each in _in_a_process_of_its_own(size)]


def slowest(plans: list[Planned], queries: int) -> float:
    """With the costings of the papers, the slower of the two."""
    return max(plan.seconds for plan in plans if plan.queries == queries and plan.costing in PAPERS)


def largest_peak(plans: list[Planned], queries: int) -> float:
    return max(plan.peak_gigabytes for plan in plans if plan.queries == queries)


def _in_a_process_of_its_own(queries: int) -> list[Planned]:
    report.progress(f"  planning {queries:,} queries")
    command = [sys.executable, "-m", "lab.figures.weaving.scale", str(queries)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return [Planned(**each) for each in json.loads(done.stdout)]


def plan(queries: int, costing: str) -> Planned:
    table = draw_table(factor_slides(queries, _RATE, largest_slide=_LARGEST_SLIDE, most_overlap=_MOST_OVERLAP), seed=1)
    started, busy = perf_counter(), process_time()
    distinct = collapse_table(table.ranges, table.slides)
    planned = weave(distinct, COSTINGS[costing]()).plan(_RATE)
    seconds, cpu = perf_counter() - started, process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return Planned(queries, costing, seconds, cpu, peak, len(distinct), len(planned.groups), float(planned.cost))


def show(plans: list[Planned], quick: bool) -> None:
    report.table(
        "Planning many queries (slides from the factors of 100,000, overlap ≤ 10,000, 100 rows per tick)",
        ["queries", "costing", "seconds", "of CPU", "peak, GB", "different", "trees", "operations per tick"],
        [
            (
                f"{each.queries:,}",
                each.costing,
                each.seconds,
                each.cpu_seconds,
                each.peak_gigabytes,
                each.distinct,
                each.trees,
                each.cost,
            )
            for each in plans
        ],
        "asked: 1,000,000 in 60 s and 4 GB, 10,000 in 1 s",
    )


if __name__ == "__main__":
    # The cheapest first, so that the peak of a costing is its own or that of a smaller one.
    print(json.dumps([asdict(plan(int(sys.argv[1]), costing)) for costing in COSTINGS]))
