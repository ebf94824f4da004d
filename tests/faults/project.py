"""A project that has every kind of file, and what its users see of it.

home/project     the catalog, the state, the delivery log: what is damaged
home/out         the files of sinks
home/data        what its streams and its table are read from
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from tests.runtime.projects import write_rows, write_text
from tests.runtime.trades_and_quotes import STREAMS, Rows, arrivals
from weft.cli import app
from weft.loom import Loom

#: How many files each stream has: before the first stop, before the second, and in all.
FIRST, SECOND, ALL = 2, 4, 6

_STREAMS = """
CREATE STREAM trades ({trades}) WATERMARK FOR n AS n - 5
  USING json OPTIONS (path '{data}/trades', maxFilesPerTrigger '1');
CREATE STREAM quotes ({quotes}) WATERMARK FOR n AS n - 5
  USING json OPTIONS (path '{data}/quotes', maxFilesPerTrigger '1');
CREATE STREAM ticks (n BIGINT, v BIGINT) WATERMARK FOR n AS n - 5
  USING replay OPTIONS (path '{data}/ticks.parquet', step '40');
CREATE TABLE sectors (sym STRING, sector STRING) USING csv OPTIONS (path '{data}/sectors', header true);
"""
_LATER_STREAM = """
CREATE STREAM past ({quotes}) WATERMARK FOR n AS n - 5 BACKFILL 40
  USING json OPTIONS (path '{data}/quotes', maxFilesPerTrigger '1');
"""

#: What is registered at first: no query needs Spark to evaluate it by itself.
_FIRST = {
    "windowed": "SELECT sym, SUM(qty) AS total, AVG(price) AS mean FROM trades [ROWS 20 SLIDE 10] GROUP BY sym",
    "running": "SELECT sym, COUNT(*) AS c, MAX(price) AS top FROM trades GROUP BY sym",
    "joined": (
        "SELECT t.n, t.sym, q.bid FROM trades t [ROWS 40], quotes q [ROWS 40] WHERE t.sym = q.sym AND q.bid < t.price"
    ),
    "chained": (
        "SELECT COUNT(*) AS c FROM trades t [ROWS 40], quotes q [ROWS 40], quotes p [ROWS 40] "
        "WHERE t.sym = q.sym AND q.bid = p.bid"
    ),
    "news": "SELECT DISTINCT sym, qty FROM trades RETAIN 40",
    "both": (
        "SELECT sym FROM trades [ROWS 40 SLIDE 20] GROUP BY sym "
        "EXCEPT SELECT sym FROM quotes [ROWS 40 SLIDE 20] WHERE bid > 6 GROUP BY sym"
    ),
    "sectored": "SELECT t.n, s.sector FROM trades t JOIN sectors s ON t.sym = s.sym",
    "replayed": "SELECT SUM(v) AS total FROM ticks [ROWS 40 SLIDE 20]",
}

#: What comes after the first stop, some of it evaluated by Spark, or over the answers of others.
_SECOND = {
    "middle": "SELECT sym, MEDIAN(price) AS mid FROM trades [ROWS 45 SLIDE 15] GROUP BY sym",
    "alone": "SELECT DISTINCT sym, bid FROM quotes RETAIN 40",
    "derived": "SELECT MAX(total) AS most FROM windowed [ROWS 40 SLIDE 20]",
    "totals": "SELECT sym, COUNT(*) AS c FROM joined GROUP BY sym",
    "history": "SELECT sym, COUNT(*) AS c FROM past [ROWS 40 SLIDE 20] GROUP BY sym",
}

_SHARING_OFF = ("alone",)
_SINKS = {"windowed": "json", "joined": "parquet", "middle": "json", "news": "parquet"}
SUBSCRIBED = {
    "wide": "SELECT n, sym, qty FROM trades WHERE qty > 1",
    "narrow": "SELECT n, sym FROM trades WHERE qty > 2 AND sym = 'a'",
}
QUERIES = (*_FIRST, *_SECOND, *SUBSCRIBED)


@dataclass(frozen=True)
class Seen:
    """What users see: of each query the answers that can be read, of each sink what it wrote, and the counts."""

    answers: Mapping[str, list[str]]
    sinks: Mapping[str, list[str]]
    counts: Any
    #: Sentences that commands said beside what they showed.
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stop:
    """A command that could not be carried out."""

    sentence: str


class Home:
    """The project in a directory, with copies of it as it was at both stops."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.project = directory / "project"
        self._cycles = arrivals(ALL, seed=11)
        self._copies: dict[str, Path] = {}

    # -- making it ----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Run the project to its second stop. Then there are rows that it has not read."""
        data = self.directory / "data"
        (data / "sectors").mkdir(parents=True)
        (data / "sectors" / "all.csv").write_text("sym,sector\na,x\nb,y\nb,z\n")
        ticks = {"n": list(range(0, 15 * ALL, 4)), "v": list(range(0, 15 * ALL, 4))}
        pq.write_table(pa.table(ticks), data / "ticks.parquet")
        self._arrive(0, FIRST)
        self._register(_STREAMS, {**_FIRST, **SUBSCRIBED})
        self._run()
        self.copy("first")
        write_text(data / "trades", "broken.json", "{broken\n")
        self._arrive(FIRST, SECOND)
        self._register(_LATER_STREAM, _SECOND)
        self._run()
        self.copy("second")
        self._arrive(SECOND, ALL)

    def _arrive(self, first: int, end: int) -> None:
        for cycle in range(first, end):
            rows: Rows = self._cycles[cycle]
            for name, columns in STREAMS.items():
                names = [column.split()[0] for column in columns.split(", ")]
                lines = [dict(zip(names, row, strict=True)) for row in rows[name]]
                write_rows(self.directory / "data" / name, f"{cycle}.json", lines)

    def _register(self, script: str, queries: Mapping[str, str]) -> None:
        texts = [script.format(data=self.directory / "data", **STREAMS)]
        for name, text in queries.items():
            into = f" INTO {_SINKS[name]} OPTIONS (path '{self.directory / 'out' / name}')" if name in _SINKS else ""
            into = " INTO subscribers" if name in SUBSCRIBED else into
            off = " SHARING OFF" if name in _SHARING_OFF else ""
            texts.append(f"CREATE CONTINUOUS QUERY {name}{into}{off} AS {text};")
        with Loom.open(self.project) as loom:
            loom.execute("\n".join(texts))

    def _run(self) -> None:
        done = self.run()
        assert done.exit_code == 0, done.output

    # -- copies -------------------------------------------------------------------------------------------------------

    def copy(self, name: str) -> None:
        """Keep the project and its sinks as they are now."""
        self._copies[name] = self.directory / "copies" / name
        for part in ("project", "out"):
            shutil.copytree(self.directory / part, self._copies[name] / part)

    def put_back(self, copy: str, name: str | None = None) -> None:
        """Make the project and its sinks, or one file of the project, as they were."""
        if name is not None:
            shutil.copy2(self._copies[copy] / "project" / name, self.project / name)
            return
        for part in ("project", "out"):
            shutil.rmtree(self.directory / part)
            shutil.copytree(self._copies[copy] / part, self.directory / part)

    def lose(self, folder: str, put_back: str | None) -> None:
        """Delete a folder of the project; an older copy of it may be put back."""
        shutil.rmtree(self.project / folder)
        if put_back is not None and (self._copies[put_back] / "project" / folder).exists():
            shutil.copytree(self._copies[put_back] / "project" / folder, self.project / folder)

    def files(self, copy: str) -> dict[str, Path]:
        """The files of a copy of the project, by their paths in it."""
        top = self._copies[copy] / "project"
        return {str(file.relative_to(top)): file for file in sorted(top.rglob("*")) if file.is_file()}

    # -- using it -----------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        return weft("run", "--project", str(self.project), "--until-idle")

    def outcome(self) -> Seen | Stop:
        """Run the project and look at all that it shows."""
        said = []
        done = self.run()
        if done.exit_code:
            return stopped(done)
        answers = {}
        for name in QUERIES:
            shown = weft("results", name, "--project", str(self.project), "--last", "100000", "--json")
            if shown.exit_code:
                return stopped(shown)
            answers[name] = sorted(shown.stdout.splitlines())
            said += shown.stderr.splitlines()
        status = weft("status", "--project", str(self.project), "--json")
        if status.exit_code:
            return stopped(status)
        document = json.loads(status.stdout)
        counts = {name: document[name] for name in ("cycle", "streams", "queries", "groups")}
        said += [line for line in done.output.splitlines() if not line.startswith("cycle ")]
        return Seen(answers, self._sinks(), counts, tuple(said))

    def _sinks(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, kind in _SINKS.items():
            for file in sorted((self.directory / "out" / name).glob(f"*.{kind}")):
                rows = pq.read_table(file).to_pylist() if kind == "parquet" else file.read_text().splitlines()
                found[f"{name}/{file.name}"] = sorted(map(str, rows))
        return found


def weft(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def stopped(result: Result) -> Stop:
    """The sentence of a command that stopped; AssertionError if it said more than one, or less."""
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.output
    assert lines[0].startswith("weft: "), result.output
    assert "Traceback" not in result.output
    return Stop(lines[0])
