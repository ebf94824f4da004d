"""`weft run`, `warm-up` and `demo`: what starts Spark."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from weft.algebra.properties import clock_type
from weft.cli import output
from weft.explain.query_text import clock_text, count
from weft.files.atomic import private_folder
from weft.loom import Loom
from weft.sql import durations
from weft.sql.settings import fixed_refusal

if TYPE_CHECKING:
    from weft.runtime.recorder import Progress


def run(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="SQL statements to register first.")] = None,
    project: output.ProjectOption = Path(),
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Stop when all that is there is processed.")] = False,
    master: output.MasterOption = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin a cycle every so often, as in '10 seconds'.")
    ] = None,
    conf: output.ConfOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Run the project's queries. Ctrl-C stops after the cycle that is running."""
    with output.reporting_failures(as_json):
        settings = spark_settings(conf or [])
        if (project / output.SITE_FILE).exists():
            raise output.CommandFailure(
                f"{project} is the directory of a federation's site; run it with: weft provider"
            )
        with Loom.open(project) as loom:
            if file is not None:
                _register(loom, file, as_json)
            if not loom.catalog.streams():
                raise output.CommandFailure("no stream is registered; give a file of statements: weft run app.sql")
            start = partial(
                loom.start, master=master, settings=settings, until_idle=until_idle, interval=_interval(every)
            )
            totals = _run(loom, start, as_json)
            errors = loom.errors()
        if as_json:
            output.print_json({"ok": not errors, **totals, **({"errors": errors} if errors else {})})
        if errors:
            if not as_json:
                for name, sentence in errors.items():
                    output.stdout().print(Text(f"query {name} is in error: {sentence}", style="red"), soft_wrap=True)
            raise typer.Exit(output.IN_ERROR)


def spark_settings(pairs: list[str]) -> dict[str, str]:
    """What `--conf` gives. Raises CommandFailure if one of them is no setting of Spark."""
    for pair in pairs:
        if not pair.startswith("spark.") or "=" not in pair:
            raise output.CommandFailure(f"'{pair}' is no setting of Spark; write --conf spark.name=value")
        refused = fixed_refusal(pair.partition("=")[0])
        if refused is not None:
            raise output.CommandFailure(f"{refused}; docs/running.md lists the settings that weft fixes")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _register(loom: Loom, file: Path, as_json: bool) -> None:
    """Register the statements of a file, all of them or none."""
    script = output.read_script(file)
    report = loom.register(script)
    if not report.ok:
        if as_json:
            output.print_json({"ok": False, "problems": output.problem_documents(report.problems, script)})
        else:
            output.print_report(report, script, file)
        raise typer.Exit(output.PROBLEMS)


def _interval(every: str | None) -> str | None:
    if every is not None:
        try:
            durations.parse(every)
        except durations.BadDuration as bad:
            raise output.CommandFailure(f"--every '{every}' is no length of time: {bad}") from None
    return every


def _run(loom: Loom, start: Callable[..., object], as_json: bool) -> dict[str, int]:
    """Run a loom until it stops or is asked to, and show its progress."""
    console = output.stdout()
    # What libraries log stays off the terminal: when Java goes, each connection to it leaves a trace of its own.
    log = private_folder(loom.directory / "log") / "java.log"
    logging.basicConfig(filename=log, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    totals = {"cycles": 0, "rows": 0, "answers": 0, "late": 0, "bad": 0, "shed": 0, "missing_files": 0, "bad_files": 0}
    stopped = threading.Event()
    with _interruptible(stopped, console, as_json), _progress_lines(console, as_json) as show:

        def on_progress(cycle: Progress) -> None:
            totals["cycles"] += 1
            for name in totals.keys() - {"cycles"}:
                totals[name] += getattr(cycle, name)
            show(progress_line(cycle, loom))

        start(on_progress=on_progress, say=show)
        while not stopped.is_set() and not loom.wait(timeout=0.2):
            pass
        loom.stop()
    if not as_json:
        counted = (("shed", "rows left out"), ("missing_files", "missing files"), ("bad_files", "files set aside"))
        gaps = "".join(f", {totals[name]:,} {what}" for name, what in counted if totals[name])
        console.print(
            f"{totals['cycles']} cycles, {totals['rows']:,} rows, {totals['answers']:,} answers, "
            f"{totals['late']:,} late and {totals['bad']:,} bad rows{gaps}; "
            f"the state is in {loom.directory / 'state'}",
            markup=False,
        )
    return totals


def progress_line(cycle: Progress, loom: Loom) -> str:
    """What a cycle did, in one line."""
    types = {each.name: clock_type(each) for each in loom.catalog.streams()}
    marks = ", ".join(
        f"{name} {clock_text(mark, types[name])}"
        for name, mark in cycle.watermarks.items()
        if mark is not None and name in types
    )
    rate = cycle.rows / cycle.seconds if cycle.seconds else 0.0
    overrun = f"; {cycle.overrun:.1f} s longer than the time between cycles" if cycle.overrun else ""
    gaps = f", {cycle.shed:,} left out" if cycle.shed else ""
    gaps += f", {count(cycle.missing_files, 'missing file')}" if cycle.missing_files else ""
    gaps += f", {count(cycle.bad_files, 'file')} set aside" if cycle.bad_files else ""
    return (
        f"cycle {cycle.cycle}: {cycle.rows:,} rows ({rate:,.0f}/s), {cycle.answers:,} answers, "
        f"{cycle.open_windows:,} open windows, {cycle.late:,} late{gaps}; watermark {marks or 'none yet'}{overrun}"
    )


@contextmanager
def _progress_lines(console: Console, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows lines: one that is renewed on a terminal, one after the other elsewhere, none for machines."""
    if quiet:
        yield lambda line: None
    elif console.is_terminal:
        with console.status("starting Spark …") as status:
            yield lambda line: status.update(Text(line))
    else:
        yield lambda line: console.print(Text(line))


@contextmanager
def _interruptible(stopped: threading.Event, console: Console, quiet: bool) -> Iterator[None]:
    """Ctrl-C asks for a stop after the cycle that is running; a second one breaks off."""
    known = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        if not quiet:
            console.print("stopping after this cycle; Ctrl-C again breaks off (nothing that is committed is lost)")
        stopped.set()
        signal.signal(signal.SIGINT, known)

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, known)


#: Some of everything that cycles do, so that Spark loads what it needs for it.
_STATEMENTS = """
CREATE STREAM readings (at TIMESTAMP, sensor STRING, value DOUBLE)
  WATERMARK FOR at AS at - INTERVAL 1 SECOND USING parquet OPTIONS (path '{path}', maxFilesPerTrigger '1');
CREATE CONTINUOUS QUERY windowed AS
  SELECT sensor, AVG(value), STDDEV(value), MAX(value), COUNT(*) FROM readings [RANGE 4 SECONDS SLIDE 2 SECONDS]
  WHERE value > 1 GROUP BY sensor;
CREATE CONTINUOUS QUERY running AS SELECT sensor, MEDIAN(value) FROM readings [RANGE UNBOUNDED] GROUP BY sensor;
CREATE CONTINUOUS QUERY chosen AS SELECT sensor, value FROM readings WHERE value > 2;
CREATE CONTINUOUS QUERY joined AS
  SELECT a.sensor, b.value FROM readings [RANGE 2 SECONDS] AS a, readings [RANGE 2 SECONDS] AS b
  WHERE a.sensor = b.sensor AND a.value < b.value;
"""


def warm_up(as_json: output.JsonOption = False) -> None:
    """Compile kernels and archive Spark's classes, once, so that later starts take about half the time."""
    from weft.runtime.spark.java import archive, make_archive

    path = archive()
    with output.reporting_failures(as_json):
        make_archive(path, _run_some_queries)
    size = path.stat().st_size
    said = f"kernels are compiled, Spark's classes are archived ({size / 1e6:.0f} MB)"
    output.print_either(as_json, {"ok": True, "archive": str(path), "bytes": size}, said)


def _run_some_queries(settings: dict[str, str]) -> None:
    """Run them over two files with a few seconds of readings each."""
    from datetime import datetime, timedelta

    import pyarrow as pa
    import pyarrow.parquet as pq

    with TemporaryDirectory(prefix="weft-warm-up-") as folder:
        rows = Path(folder, "rows")
        rows.mkdir()
        for file in range(2):
            seconds = range(10 * file, 10 * file + 10)
            columns = {
                "at": [datetime(2000, 1, 1) + timedelta(seconds=second) for second in seconds],
                "sensor": [f"s{second % 3}" for second in seconds],
                "value": [float(second % 7) for second in seconds],
            }
            pq.write_table(pa.table(columns), rows / f"{file}.parquet")
        with Loom.open(Path(folder, "project")) as loom:
            loom.execute(_STATEMENTS.format(path=rows))
            loom.start(settings=settings, until_idle=True)
            loom.wait()


def demo(
    folder: Annotated[Path, typer.Option(help="Where its data and state go.")] = Path("build/demo"),
    queries: Annotated[int | None, typer.Option(help="How many queries; all 300 unless given.")] = None,
    master: output.MasterOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Replay a year of flights and weather under many queries, and show the answers and what they cost."""
    from weft.demo import ALL, run

    count = ALL if queries is None else queries
    with output.reporting_failures(as_json):
        totals = run(folder, Console(quiet=True) if as_json else output.stdout(), count=count, master=master)
    if as_json:
        output.print_json({"ok": True, "queries": count, **asdict(totals)})
