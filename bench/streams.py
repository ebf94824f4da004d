"""Many streams: what a cycle costs by the number of streams, and by the number of those that have rows.

    python -m bench.streams [--quick]

Projects of 1 to 200 streams of twenty columns run with one query for each stream, in Java's default heap of 2 GB. In
some cycles every stream has ten rows; in others one of them has. `bench/stream_measurements/cycles.py` is the process
that is measured. A quick run has 1 and 20 streams, and selections over JSON files only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench import report
from bench.stream_measurements.cycles import ALL_CYCLES, ONE_CYCLES, SELECTION, WINDOW

SIZES, QUICK_SIZES = (1, 5, 20, 60, 200), (1, 20)
WORKLOADS = (("json", SELECTION), ("parquet", WINDOW), ("parquet", SELECTION), ("json", WINDOW))
#: So many times longer than anything that has ended well may a process run.
_PATIENCE = 1_800

DEFINITIONS = {
    "cpu_20_over_1_idle": "CPU of a cycle in which one stream of 20 has rows, over a project with one stream",
    "cpu_200_over_1_idle": "CPU of a cycle in which one stream of 200 has rows, over a project with one stream; as all "
    "ratios but the last, of selections over JSON files",
    "cpu_per_stream_200_over_20": "CPU for each stream when all have rows: at 200 streams over 20",
    "seconds_200_all": "seconds of a cycle in which all 200 streams have rows",
    "seconds_200_one": "seconds of a cycle in which one of 200 streams has rows",
    "heap_mb_200": "the most that 200 streams used of Java's heap of 2 GB, over all workloads; garbage included",
}


@dataclass(frozen=True)
class Measured:
    """Medians of the cycles of one project: with rows in all streams, and with rows in one of them."""

    format: str
    kind: str
    streams: int
    first_seconds: float
    all_seconds: float
    all_cpu: float
    one_seconds: float
    one_cpu: float
    heap_mb: float
    answers: int


def main() -> None:
    quick = report.quick_from_arguments("The cost of a cycle by the number of streams")
    found = []
    for format_, kind in WORKLOADS[:1] if quick else WORKLOADS:
        for streams in QUICK_SIZES if quick else SIZES:
            report.progress(f"{streams} streams, {kind} over {format_} …")
            found.append(_measured(format_, kind, streams))
    _show(found)
    details = {"definitions": DEFINITIONS, "measured": [asdict(each) for each in found]}
    report.finish("streams", _ratios(found), details, quick)


def _measured(format_: str, kind: str, streams: int) -> Measured:
    with TemporaryDirectory(prefix="weft-bench-streams-") as folder:
        command = [
            sys.executable,
            "-m",
            "bench.stream_measurements.cycles",
            f"{folder}/data",
            str(streams),
            format_,
            kind,
        ]
        root = Path(__file__).parent.parent
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    line = json.loads(done.stdout.splitlines()[-1])
    cycles = line["cycles"]
    if len(cycles) != ALL_CYCLES + ONE_CYCLES:
        raise SystemExit(f"{len(cycles)} cycles have run, and not {ALL_CYCLES + ONE_CYCLES}")
    # The first cycle of each sort compiles what those after it use.
    with_all, with_one = cycles[1:ALL_CYCLES], cycles[ALL_CYCLES + 1 :]

    def middle(of: Sequence[dict[str, float]], name: str) -> float:
        return median(each[name] for each in of)

    return Measured(
        format_, kind, streams, cycles[0]["seconds"], middle(with_all, "seconds"), middle(with_all, "cpu"),
        middle(with_one, "seconds"), middle(with_one, "cpu"), line["heap_mb"], line["answers"],
    )  # fmt: skip


def _ratios(found: Sequence[Measured]) -> dict[str, float | None]:
    json_selections = {each.streams: each for each in found if (each.format, each.kind) == WORKLOADS[0]}
    one, twenty, many = (json_selections.get(streams) for streams in (1, 20, 200))
    assert one is not None
    assert twenty is not None
    found_quickly: dict[str, float | None] = {"cpu_20_over_1_idle": twenty.one_cpu / one.one_cpu}
    if many is None:
        return dict.fromkeys(DEFINITIONS) | found_quickly
    return found_quickly | {
        "cpu_200_over_1_idle": many.one_cpu / one.one_cpu,
        "cpu_per_stream_200_over_20": (many.all_cpu / 200) / (twenty.all_cpu / 20),
        "seconds_200_all": many.all_seconds,
        "seconds_200_one": many.one_seconds,
        "heap_mb_200": max(each.heap_mb for each in found if each.streams == 200),
    }


def _show(found: Sequence[Measured]) -> None:
    report.table(
        "Cycles by the number of streams",
        [
            "files",
            "queries",
            "streams",
            "first s",
            "all: s",
            "all: CPU s",
            "one: s",
            "one: CPU s",
            "heap MB",
            "answers",
        ],
        [list(asdict(each).values()) for each in found],
        "first: the first cycle; all: every stream has rows; one: one stream has rows",
    )


if __name__ == "__main__":
    main()
