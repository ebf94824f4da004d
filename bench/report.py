"""What all benchmarks share: where results go, what they were measured on, and how they are printed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"

#: The folder of the laboratory's results, which `python -m lab.figures.…` writes.
LAB_RESULTS = Path(__file__).parent.parent / "lab" / "results"

PACKAGES = ("weft", "numpy", "numba", "pyarrow", "pandas", "pyspark", "duckdb", "sqlglot")

# A pipe has no width of its own, and the 80 columns that rich then takes fold most tables.
_WIDTH_OF_A_PIPE = 140

_PROCESSES = "/proc"
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14

# The threads of Java's two compilers, as far as Linux has room for their names.
_COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")

# What the machine was busy with before the benchmark made it busy.
_load_before = os.getloadavg()


def quick_from_arguments(description: str) -> bool:
    """Reads the command line; true if it says `--quick`."""
    return bool(_parser(description).parse_args().quick)


def quick_and_only_from_arguments(description: str, measurements: Iterable[str]) -> tuple[bool, str | None]:
    """The same of a benchmark with several measurements, and the one that `--only` names."""
    parser = _parser(description)
    parser.add_argument("--only", choices=list(measurements), help="one measurement, with results of its own")
    chosen = parser.parse_args()
    return chosen.quick, chosen.only


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="a smaller run of at most a minute; its results are not kept in git"
    )
    return parser


def results(quick: bool) -> Path:
    """The folder for results, made if it is missing. Quick runs have their own: they never replace full ones."""
    program = sys.modules["__main__"].__spec__
    kept = LAB_RESULTS if program is not None and program.name.startswith("lab.") else RESULTS
    folder = kept / "quick" if quick else kept
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# --- the machine -----------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """The facts without which a figure means nothing. No names: neither of the host nor of its user."""
    return {
        "cores": cores(),
        "cpu": _cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": dict(_installed(PACKAGES)),
        "load_average": {"before": _load_before, "now": os.getloadavg()},
    }


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    description = Path("/proc/cpuinfo")
    lines = description.read_text().splitlines() if description.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _installed(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def cpu_seconds() -> float:
    """User and system time so far of this process and all its descendants, living and ended; take differences.

    A process that has ended is in the account of the parent that waited for it. One whose parent ended first is lost,
    and where there is no /proc only this process and its ended children are seen.
    """
    mine, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    here = mine.ru_utime + mine.ru_stime + ended.ru_utime + ended.ru_stime
    return here + _ticks_of_living_descendants() / os.sysconf("SC_CLK_TCK")


def compiler_seconds() -> float:
    """The part of it that the compilers of living Java processes have taken; take differences.

    Java compiles what is called often, first quickly and then well. That goes on for hundreds of cycles, and ends.
    """
    threads = (
        fields
        for process in _living_descendants()
        for name, _, fields in _stat_fields(f"{_PROCESSES}/{process}/task")
        if name in _COMPILERS
    )
    return sum(fields[_USER] + fields[_SYSTEM] for fields in threads) / os.sysconf("SC_CLK_TCK")


def _ticks_of_living_descendants() -> int:
    """Clock ticks of all processes under this one, with those of their own ended children."""
    spent = (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM)
    return sum(fields[at] for fields in _living_descendants().values() for at in spent)


def _living_descendants() -> dict[int, list[int]]:
    """All processes under this one, with their fields."""
    fields = {number: of_process for _, number, of_process in _stat_fields(_PROCESSES)}
    children: dict[int, list[int]] = {}
    for process, of_process in fields.items():
        children.setdefault(of_process[_PARENT], []).append(process)
    found, waiting = {}, list(children.get(os.getpid(), ()))
    while waiting:
        process = waiting.pop()
        waiting.extend(children.get(process, ()))
        found[process] = fields[process]
    return found


def _stat_fields(folder: str) -> Iterator[tuple[str, int, list[int]]]:
    """Names and numbers of the processes or threads in a folder, and the fields of their `stat` after the name, counted
    from the state (which is no number: −1).

    Time is taken after every cycle, and in places what that takes is counted: paths are plain text for that reason.
    """
    for number in filter(str.isdigit, os.listdir(folder) if os.path.isdir(folder) else ()):
        try:
            with open(f"{folder}/{number}/stat") as file:
                text = file.read()
        except OSError:  # it ended while we looked
            continue
        # The name is in parentheses and may hold any character, so the last one closes it.
        before, _, after = text.rpartition(")")
        yield before.partition("(")[2], int(number), [-1, *map(int, after.split()[1:])]


# --- taking the time of several measurements --------------------------------------------------------------------------


class Stopwatch:
    """Runs the families one after the other, and keeps what each took: seconds of the clock, and of all processors."""

    def __init__(self) -> None:
        self.spent: dict[str, dict[str, float]] = {}

    def run(self, name: str, measure: Callable[[bool], Any], show: Callable[[Any, bool], None], quick: bool) -> Any:
        progress(f"{name} …")
        wall, cpu = perf_counter(), cpu_seconds()
        found = measure(quick)
        show(found, quick)
        spent = {"wall_seconds": perf_counter() - wall, "cpu_seconds": cpu_seconds() - cpu}
        self.spent[name] = spent
        progress(f"{name}: {spent['wall_seconds']:.0f} s")
        return found


# --- printing and keeping --------------------------------------------------------------------------------------------


def progress(message: str) -> None:
    """Tells a waiting person what goes on; on stderr, so that stdout can be read by a program."""
    print(message, file=sys.stderr, flush=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> None:
    """Prints a table: columns with figures in them to the right, the others to the left; a note goes below it."""
    cells = [list(row) for row in rows]
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False)
    printed = Table(title=title, title_justify="left", caption=note or None, caption_justify="left")
    for position, column in enumerate(columns):
        has_figures = any(isinstance(row[position], int | float) for row in cells)
        printed.add_column(column, justify="right" if has_figures else "left")
    for row in cells:
        printed.add_row(*map(_cell, row))
    console.print(printed)
    console.print()


def _cell(value: object) -> str:
    """Text as it is, nothing as a dash, and floats with three digits that count."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def save_chart(figure: Figure, name: str, quick: bool) -> Path:
    """Keeps a chart as <name>.png among the results."""
    path = results(quick) / f"{name}.png"
    figure.savefig(path, dpi=110)
    return path


def finish(name: str, ratios: Mapping[str, float | None], details: Mapping[str, Any], quick: bool) -> None:
    """Writes <name>.json (ratios, details, the machine's facts), and prints the ratios as the last line of stdout."""
    rounded = {key: None if ratio is None else _four_digits(ratio) for key, ratio in ratios.items()}
    record = {"bench": name, "quick": quick, "ratios": rounded, "details": details, "machine": machine()}
    path = results(quick) / f"{name}.json"
    # NaN and infinity are not JSON; a benchmark that got one has measured nothing and should say so by failing.
    path.write_text(json.dumps(record, indent=2, allow_nan=False, default=_plain) + "\n")
    progress(f"results are in {path.relative_to(RESULTS.parent.parent)}")
    print(json.dumps(rounded, allow_nan=False), flush=True)


def _four_digits(ratio: float) -> float:
    return float(f"{float(ratio):.4g}")


def _plain(value: Any) -> Any:
    """What JSON has no word for: numbers and arrays of NumPy (`tolist`), and exact fractions."""
    return value.tolist() if hasattr(value, "tolist") else float(value)
