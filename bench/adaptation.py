"""The order of a join on the engine: selectivities change places half-way through, and the engine reorders the join.

    python -m bench.adaptation [--quick]

The join is a ⋈ b ⋈ c. First few rows of a and b meet and many of b and c; from the middle on it is reversed.

Each cycle brings as many rows of each stream, spread evenly over the cycle's time; windows are some cycles long. A row
has `many` partners in one of the other streams and `few` in the other, on average: keys are drawn evenly from as many
values as that takes.

    adaptive       as users have it
    fixed          one order from the first cycle to the last
    clairvoyant    the right order in the first half, and the other one from a cycle on that was fixed before. In the
                   first cycle with other rows that is not the best moment: windows still hold many pairs that the new
                   order has to put together. So two moments are tried, and the better one counts

Orders are fixed by statistics that always say the same, and by looking at nothing again; they count and explore like
the adaptive one. All runs are in one process and one session, and all must give as many answers.

Java compiles for minutes: of four equal runs in one process the second took 1.4 times the CPU of the fourth. So some
runs go first that do not count, and those that are compared most closely run there and back: adaptive, the two
clairvoyant ones, and the same three in reverse. Each stands in the middle of its two places, so what Java gains
meanwhile is shared evenly. The fixed orders come last, when Java is quickest.

A quick run measures nothing: Java compiles during the first twenty cycles, and says nothing about orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from bench import report
from bench.charts import canvas
from tests.support.fixed_statistics import FIRST_TWO, LAST_TWO, FixedStatistics
from weft.loom import Loom
from weft.optimizer.network.redeciding import Patience
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.recorder import Progress
from weft.runtime.spark.session import session
from weft.runtime.stages.joins.network_records import observed_before, recorded_sizes
from weft.runtime.stages.joins.stage import JoinStage

DEFINITIONS = {
    "engine_adaptive_over_worse_static": "CPU seconds of all processes, over those of the fixed order that took more; "
    "a three-way join whose selectivities change places half-way, all cycles but the first two",
    "engine_adaptive_over_clairvoyant": "the same over the best of some runs that change the order in a cycle that was "
    "fixed before, soon after the rows have changed",
}

#: The first cycles of a run do not count.
COLD = 2
#: Runs before any of them counts.
WARM_UP = 2
#: Ticks of the clock in a cycle.
TICKS = 1_000


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int
    """Of each stream in a cycle."""
    cycles: int
    window: int
    """In cycles."""
    many: float
    few: float
    """Partners of a row within a window."""
    switches: tuple[int, int]
    """When those who know the future change the order: so many cycles after the rows have."""


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    cpu: tuple[float, ...]
    """By cycle."""
    answers: int
    decided: tuple[tuple[int, str, str], ...] = ()
    """Before which cycle the order was changed, from which to which."""

    @property
    def total(self) -> float:
        return sum(self.cpu[COLD:])


@dataclass(frozen=True, slots=True)
class Joins:
    scale: Scale
    adaptive: Run
    fixed: tuple[Run, Run]
    clairvoyant: tuple[Run, ...]

    @property
    def over_worse(self) -> float:
        return self.adaptive.total / max(each.total for each in self.fixed)

    @property
    def over_clairvoyant(self) -> float:
        return self.adaptive.total / self.best_clairvoyant.total

    @property
    def best_clairvoyant(self) -> Run:
        return min(self.clairvoyant, key=lambda each: each.total)


def measure(scale: Scale) -> Joins:
    half = scale.cycles // 2
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        rows = Path(folder)
        _write(rows, scale)
        session(settings={"spark.driver.memory": "3g"})
        for _ in range(WARM_UP):
            _run("warm-up", rows, scale, FIRST_TWO, half)
        orders = {
            "adaptive": partial(_run, "adaptive", rows, scale, None, None),
            **{
                f"changed in cycle {half + after}": partial(
                    _run, f"changed in cycle {half + after}", rows, scale, FIRST_TWO, half + after
                )
                for after in scale.switches
            },
        }
        found: dict[str, list[Run]] = {name: [] for name in orders}
        for name in (*orders, *reversed(orders)):
            found[name].append(orders[name]())
        first = _run("a ⋈ b first", rows, scale, FIRST_TWO, None)
        last = _run("b ⋈ c first", rows, scale, LAST_TWO, None)
    adaptive, *knowing = (_mean(each) for each in found.values())
    runs = [first, last, *(each for both in found.values() for each in both)]
    if len({each.answers for each in runs}) != 1:
        raise ValueError(f"runs over the same rows have different numbers of answers: {runs}")
    return Joins(scale, adaptive, (first, last), tuple(knowing))


def _mean(runs: Sequence[Run]) -> Run:
    """Runs of the same order as one, with what they took on average in each cycle."""
    decided = tuple(dict.fromkeys(each for run in runs for each in run.decided))
    return Run(runs[0].name, tuple(np.mean([run.cpu for run in runs], axis=0).tolist()), runs[0].answers, decided)


def _write(folder: Path, scale: Scale) -> None:
    random = np.random.default_rng(5)
    in_window = scale.rows * scale.window
    few, many = (round(in_window / each) for each in (scale.many, scale.few))
    for cycle in range(scale.cycles):
        of_k, of_p = (many, few) if cycle < scale.cycles // 2 else (few, many)
        for stream in "abc":
            table = pa.table(
                {
                    "n": np.sort(random.integers(cycle * TICKS, (cycle + 1) * TICKS, scale.rows)),
                    "k": pa.array(random.integers(0, of_k, scale.rows), pa.int32()),
                    "p": pa.array(random.integers(0, of_p, scale.rows), pa.int32()),
                }
            )
            file = folder / stream / f"{cycle:04d}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(table, file)
            os.utime(file, (10**9 + cycle, 10**9 + cycle))


def _run(name: str, rows: Path, scale: Scale, rare: str | None, change_in: int | None) -> Run:
    """A run; one that decides for itself if nothing is told to be rare, otherwise in the order that follows from it."""
    window = f"[ROWS {scale.window * TICKS}]"
    with TemporaryDirectory(prefix="weft-bench-") as scratch, Loom.open(Path(scratch)) as loom:
        for stream in "abc":
            loom.execute(
                f"CREATE STREAM {stream} (n BIGINT, k INT, p INT) WATERMARK FOR n AS n "
                f"USING parquet OPTIONS (path '{rows / stream}', maxFilesPerTrigger '1')"
            )
        loom.execute(
            f"CREATE CONTINUOUS QUERY q AS SELECT a.n, b.n AS m, c.n AS o FROM a {window}, b {window}, c {window} "
            "WHERE a.k = b.k AND b.p = c.p"
        )
        marks, answers = [report.cpu_seconds()], list[int]()
        network = _network(loom, rare, change_in)
        loom.catalog.set_setting("max_results", 0)
        engine = Engine(session(), loom.catalog, state_directory(Path(scratch)), network=network)

        def seen(progress: Progress) -> None:
            marks.append(report.cpu_seconds())
            answers.append(progress.answers)

        engine.listeners.append(seen)
        engine.start(until_idle=True)
        engine.wait()
        decided = [(each.cycle, each.before, each.after) for each in recorded_sizes(loom.catalog).history]
    report.progress(f"engine: {name}: {sum(np.diff(marks)[COLD:]):.1f} CPU s")
    return Run(name, tuple(float(each) for each in np.diff(marks)), sum(answers), tuple(decided))


def _network(loom: Loom, rare: str | None, change_in: int | None) -> JoinStage:
    hosted, catalog = loom.catalog.settings(), loom.catalog
    if rare is None:
        return JoinStage(hosted, observed_before(catalog))
    fixed = FixedStatistics(rare)

    def forced(cycle: int, places: Sequence[str]) -> Iterable[str]:
        if cycle != change_in:
            return ()
        fixed.rare = LAST_TWO if fixed.rare == FIRST_TWO else FIRST_TWO
        return places

    return JoinStage(hosted, fixed, Patience(looked_at=0), forced)


# --- what is shown ----------------------------------------------------------------------------------------------------


def show(joins: Joins) -> None:
    scale, runs = joins.scale, (joins.adaptive, *joins.fixed, *joins.clairvoyant)
    report.table(
        f"a ⋈ b ⋈ c, {scale.rows:,} rows of each in a cycle, {scale.cycles} cycles, selectivities change half-way",
        ["order", "CPU s", "over adaptive", "changed before cycle"],
        [
            [
                each.name,
                each.total,
                each.total / joins.adaptive.total,
                ", ".join(str(cycle) for cycle, _, _ in each.decided) or "-",
            ]
            for each in runs
        ],
    )


def draw(joins: Joins) -> Figure:
    figure, (axes,) = canvas(1, width=7, height=4)
    best = joins.best_clairvoyant
    for run, style in ((joins.adaptive, "-"), (joins.fixed[0], "--"), (joins.fixed[1], "--"), (best, ":")):
        name = "knows the future" if run is best else run.name
        axes.plot(range(COLD, len(run.cpu)), list(accumulate(run.cpu[COLD:])), style, label=name)
    axes.axvline(joins.scale.cycles // 2, color="grey", linewidth=0.8)
    for cycle, _, _ in joins.adaptive.decided:
        axes.axvline(cycle, color="C0", linewidth=0.8, linestyle=":")
    axes.set(xlabel="cycle", ylabel="CPU seconds so far", title="A three-way join whose selectivities change places")
    axes.legend()
    return figure


def main() -> None:
    quick = report.quick_from_arguments("The engine reorders a join whose selectivities change.")
    if quick:
        report.progress("left out: Java compiles during the first twenty cycles, and says nothing about orders")
        report.finish("adaptation", dict.fromkeys(DEFINITIONS), {"definitions": DEFINITIONS}, quick)
        return
    joins = measure(Scale(rows=8_000, cycles=60, window=3, many=60.0, few=0.01, switches=(1, 2)))
    show(joins)
    report.save_chart(draw(joins), "adaptation_engine", quick)
    ratios = {
        "engine_adaptive_over_worse_static": joins.over_worse,
        "engine_adaptive_over_clairvoyant": joins.over_clairvoyant,
    }
    report.finish("adaptation", ratios, {"definitions": DEFINITIONS, "joins": asdict(joins)}, quick)


if __name__ == "__main__":
    main()
