"""The loom: what a user of the library holds in hand.

loom = weft.open("project")
loom.execute('''
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)
      WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING parquet OPTIONS (path 'data/trades');
    CREATE CONTINUOUS QUERY hot AS
      SELECT symbol, AVG(price) FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES] GROUP BY symbol;
''')
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from weft.algebra import Definition, Query, Stream, Table, View
from weft.algebra.secrets import shown_value
from weft.catalog import Catalog, CatalogError, CatalogLocked, find_writer
from weft.catalog.database import PATIENCE
from weft.files.atomic import private_folder
from weft.loom import inspection
from weft.loom.registration import Outcome, Registration, RequestThread
from weft.sql import Problem, SqlError, bind_or_repeat, parse, split, statements
from weft.sql.check import check
from weft.sql.names import name_refusal

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from weft.delivery import Subscriber
    from weft.delivery.control import Control
    from weft.runtime.engine import Engine
    from weft.runtime.recorder import Progress
    from weft.runtime.sources.table_snapshots import GivenRows
    from weft.runtime.stages.windows.warm_start import RestoredState


#: Seconds within which a running process answers, unless it hangs.
_LIMIT: Final = 60.0

#: Seconds between two looks for the answer.
_PAUSE: Final = 0.03

_log = logging.getLogger("weft")


class Loom:
    """A project: its streams, tables, views and continuous queries."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._engine: Engine | None = None
        self._frames: dict[str, DataFrame] = {}
        self._tables: dict[str, GivenRows] = {}
        self._callables: dict[str, Callable[[pa.Table, int], object]] = {}
        self._control: Control | None = None
        self._requests: RequestThread | None = None

    @classmethod
    def open(cls, directory: str | Path, *, write: bool = True) -> Self:
        """Open the project in `directory`, which is created if need be.

        One process at a time may write to it; another one that is about to end is waited for.
        """
        if write:
            private_folder(Path(directory))
        return cls(Catalog.open(directory, write=write, patience=PATIENCE))

    def close(self) -> None:
        """Stop, if need be, and close the project."""
        self.stop()
        if self._requests is not None:
            self._requests.stop()
        if self._control is not None:
            self._control.close()
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def execute(self, script: str) -> list[Outcome]:
        """Run the statements of a script, each in its own transaction; the first that fails stops it.

        A CREATE that repeats what is registered already changes nothing, so a script may be run again. While the loom
        runs, changes take effect in the next cycle.
        """
        outcomes = []
        for piece in split(script):
            try:
                outcomes.append(self._apply(bind_or_repeat(parse(piece.text), self.catalog, piece.text)))
            except SqlError as error:
                raise error.shifted(piece.start) from None
        return outcomes

    def register(self, script: str) -> Registration:
        """Run the statements of a script, all of them or none, and report every problem of the script."""
        with self.catalog.transaction():
            report = check(script, self.catalog)
            outcomes = tuple(map(self._apply, report.good)) if report.ok else ()
        return Registration(outcomes, report.problems, len(report.good), report.skipped, notes=report.notes)

    def query(self, name: str, select: str) -> Query:
        """Register a continuous query."""
        self.execute(f"CREATE CONTINUOUS QUERY `{name}` AS {select}")
        return self.catalog.query(name)

    def drop(self, name: str) -> None:
        """Drop a continuous query."""
        self.execute(f"DROP CONTINUOUS QUERY `{name}`")

    def explain(self, query: str | None = None, *, format: str = "TEXT") -> str:
        """How a query, or everything together, is evaluated and what is shared.

        `format` is TEXT, JSON, MERMAID, DOT or SVG: the last three are pictures.
        """
        return inspection.explain(self.catalog, query, format)

    # -- running ------------------------------------------------------------------------------------------------------

    def stream(self, name: str, frame: DataFrame, *, clock: str, watermark: str) -> Stream:
        """Register a PySpark streaming DataFrame as a stream; `watermark` is how late rows may be, as '5 seconds'.

        The declaration is kept; the DataFrame is not: attach it again after the project is opened again.
        """
        from weft.runtime.project_state import refuse_other_sources
        from weft.runtime.sources.stream_sources import stream_of

        refuse_other_sources(self.directory, named=False)
        _refuse_bad_name(name)
        stream = stream_of(name, frame, clock, watermark)
        self._declare(stream, self.catalog.find(name), "columns, clock or watermark")
        self._frames[name] = frame
        return stream

    def table(self, name: str, rows: GivenRows) -> Table:
        """Register a PySpark DataFrame that does not stream, or a pyarrow.Table, as a table to join streams with.

        Its rows are read when the loom starts. The declaration is kept, the rows are not: attach them again after
        the project is opened again.
        """
        from weft.runtime.sources.table_snapshots import table_of

        _refuse_bad_name(name)
        table = table_of(name, rows)
        self._declare(table, self.catalog.find(name), "columns or another source")
        self._tables[name] = rows
        return table

    def _declare(self, given: Stream | Table, known: Definition | None, otherwise: str) -> None:
        if type(known) is not type(given):
            self.catalog.add(given)
        elif known != given:
            kind = type(given).__name__.lower()
            raise ValueError(f"{kind} '{given.name}' is registered with other {otherwise}; drop it first")

    def sink(self, query: str, function: Callable[[pa.Table, int], object]) -> None:
        """Call `function(answers, cycle)` with a query's answers; after a crash a cycle may come again."""
        name = self.catalog.query(query).name
        self._callables[name] = function
        if self._engine is not None:
            self._engine.outbox.add_callable(name, function)

    def start(
        self,
        *,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        until_idle: bool = False,
        interval: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        say: Callable[[str], None] = _log.warning,
    ) -> Engine:
        """Start the queries on Spark: `local[*]` or any master. `until_idle` stops when what is there now is done.

        Several looms can run on the Spark of one process: each has a session of its own, and one that the caller made
        keeps its settings. `on_progress` is called after each cycle, `say` with sentences for people when something is
        in the way.
        """
        from weft.runtime.spark.session import session

        if self._engine is not None and self._engine.is_running:
            raise RuntimeError("this loom is running already")
        if self._control is not None:
            self._control.close()
        if self._requests is None:
            self._requests = RequestThread(self.catalog, self.register)
            self._requests.start()
        chosen = self.catalog.settings()
        stored = {name: str(value) for name, value in chosen.stored.items() if name.startswith("spark.")}
        beside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weft-ahead")
        ahead = beside.submit(_left, self.directory)
        beside.shutdown(wait=False)
        with _short_switch_interval():
            spark = session(master, {**stored, **(settings or {})}, self.directory / "log")
        from weft.delivery.control import Control
        from weft.runtime.engine import Engine
        from weft.runtime.project_state import state_directory
        from weft.runtime.spark.spark_failures import failing_in_one_sentence

        with failing_in_one_sentence("the project cannot be opened"):
            engine = Engine(spark, self.catalog, state_directory(self.directory), restored=ahead)
        engine.frames.update(self._frames)
        engine.tables.update(self._tables)
        for name, function in self._callables.items():
            engine.outbox.add_callable(name, function)
        engine.say = say
        if on_progress is not None:
            engine.listeners.append(on_progress)
        self._control = Control(self.catalog, say)
        self._control.attach(engine)
        with failing_in_one_sentence("the streams cannot be read"):
            engine.start(until_idle=until_idle, interval=interval)
        self._engine = engine
        return engine

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the loom has stopped; False if it still runs after `timeout` seconds."""
        return self._engine is None or self._engine.wait(timeout)

    def stop(self) -> None:
        """Stop after the cycle that is running now."""
        if self._engine is not None:
            self._engine.stop()

    def results(self, query: str) -> pa.Table:
        """The newest answers of a query; an empty table when there are none yet."""
        from weft.runtime.sinks.results import newest_answers
        from weft.runtime.sinks.shed_notices import shedding_streams

        found = self.catalog.query(query)
        if found.name in self.catalog.members():
            return self._delivered(found)
        streams = shedding_streams(self.catalog.queries())[found.name]
        return newest_answers(self.directory, found, self.catalog.query_numbers()[found.name], streams)

    def _delivered(self, query: Query) -> pa.Table:
        """The answers of a query INTO subscribers that the delivery log keeps."""
        import pyarrow as pa

        from weft.arrays.arrow_types import arrow_type
        from weft.delivery.delivery_log import check_published, delivery_directory
        from weft.delivery.subscribe import kept_answers
        from weft.runtime.state.commits import last_commit

        schema = pa.schema([(field.name, arrow_type(field.type)) for field in query.relation.fields])
        directory = delivery_directory(self.directory)
        published = self.catalog.deliveries.itinerary(self.catalog.query_numbers()[query.name])
        last = last_commit(self.directory)
        if published is not None and last is not None and published.cycle <= last.cycle:
            check_published(directory, query.name)
        kept = kept_answers(directory, query.name, self.catalog.settings().max_results)
        return pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in kept)])

    def subscribe(
        self,
        query: str,
        *,
        last: int | None = None,
        since: datetime | int | None = None,
        since_clock: datetime | int | None = None,
        token: str | None = None,
    ) -> Subscriber:
        """Follow the answers of a query INTO subscribers, as they come: an iterator of batches, also of `async for`.

        Those from now on; before them the `last` answers, a number of them, or what was published `since` a time, or
        what has been answered for a time or later (`since_clock`).
        """
        from weft.delivery import subscribe
        from weft.delivery.delivery_log import delivery_directory

        found = self.catalog.query(query)
        if found.name not in self.catalog.members():
            raise ValueError(
                f"query '{found.name}' has no subscribers; CREATE CONTINUOUS QUERY {found.name} INTO subscribers AS …"
            )
        directory = delivery_directory(self.directory)
        return subscribe(directory, found.name, last=last, since=since, since_clock=since_clock, token=token, wait=True)

    @property
    def directory(self) -> Path:
        return self.catalog.path.parent

    # -- statements ---------------------------------------------------------------------------------------------------

    def _apply(self, statement: statements.Statement) -> Outcome:
        if isinstance(statement, statements.Create):
            made = statement.definition
            self.catalog.add(made)
            more = self._follow_streams() if isinstance(made, Stream) else _noted(statement.notes)
            return Outcome(f"{type(made).__name__.lower()} {made.name} created{more}")
        if isinstance(statement, statements.Drop):
            kind = {"STREAM": Stream, "TABLE": Table, "VIEW": View, "QUERY": Query}[statement.kind]
            self.catalog.drop(kind, statement.name)
            if statement.kind == "STREAM":
                self._follow_streams()
            return Outcome(f"{statement.kind.lower()} {statement.name} dropped")
        if isinstance(statement, statements.ResumeQuery):
            return Outcome(self._resume(self.catalog.query(statement.name).name))
        if isinstance(statement, statements.SetOption):
            self.catalog.set_setting(statement.name, statement.value)
            return Outcome(f"{statement.name} = {shown_value(statement.name, statement.value)}")
        if isinstance(statement, statements.Show):
            return inspection.show(self.catalog, statement.kind)
        if isinstance(statement, statements.Describe):
            return inspection.describe(self.catalog, statement.name)
        if isinstance(statement, statements.Explain):
            return Outcome(self.explain(statement.query, format=statement.format))
        return Outcome(statement.reason)

    def _follow_streams(self) -> str:
        """Let a running engine read the streams as they are registered, and say when that is, if it is not now."""
        if self._engine is None or not self._engine.is_running:
            return ""
        if not self._engine.follows_streams:
            return "; it is read from the next start on, because other streams are DataFrames from Python"
        self._engine.follow_streams()
        return "; it is read as soon as the cycle that is running is over"

    def _resume(self, query: str) -> str:
        """Have a query that is in error tried again, and say when that is."""
        if query not in self.errors():
            return f"query {query} is not in error"
        if self._engine is not None and self._engine.is_running and self._engine.in_error.resume(query):
            return f"query {query} is tried again as soon as the cycle that is running is over"
        return f"query {query} is tried again at the next start"

    def errors(self) -> dict[str, str]:
        """The queries that are in error, and why."""
        if not (self.directory / "state" / "commits").exists():
            # Nothing has run yet, and Spark's modules need not be loaded to say so.
            return {}
        from weft.runtime.state.commits import errors_of, last_commit

        commit = last_commit(self.directory)
        return {} if commit is None else {name: each.sentence for name, each in errors_of(commit).items()}


def _refuse_bad_name(name: str) -> None:
    refused = name_refusal(name)
    if refused is not None:
        raise ValueError(f"{refused}; choose another name")


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Threads take turns ten times as often as usual.

    What starts Java has little to do, and would wait for its turn after every look at a file, while another thread
    loads modules: Java would start a second later.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 10)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _left(directory: Path) -> RestoredState:
    """What the last process has left. The engine's modules are loaded here, while Spark starts."""
    from weft.runtime.stages.windows.warm_start import restored

    return restored(directory)


def _noted(notes: Sequence[Problem]) -> str:
    return "".join(f"; {sentence}" for sentence in dict.fromkeys(note.message for note in notes))


def change(directory: Path, script: str, limit: float = _LIMIT) -> Registration:
    """Carry out a script in the project in `directory`, all of it or nothing.

    If a process runs the project, that process carries it out. If it ends before it has done so, this one does.
    """
    while True:
        try:
            with Loom.open(directory) as loom:
                return loom.register(script)
        except CatalogLocked as locked:
            if not locked.answers:
                raise
            found = _ask(directory, script, locked.holder, limit)
            if found is not None:
                return found


def _ask(directory: Path, script: str, holder: str, limit: float) -> Registration | None:
    """What the process that runs a project answers; None if it has ended and nothing was done.

    Raises CatalogError if it does not answer, or cannot carry out the script.
    """
    with Catalog.open(directory, write=False) as catalog:
        number = catalog.submit(script)
        end = time.monotonic() + limit
        try:
            while (answer := catalog.request(number).answer) is None:
                is_late = time.monotonic() > end
                if (is_late or find_writer(directory) is None) and catalog.withdraw(number):
                    if not is_late:
                        return None
                    raise CatalogError(
                        f"{holder} runs {directory} and did not answer within {limit:.0f} s; nothing was changed; "
                        "repeat, or stop it first"
                    )
                time.sleep(_PAUSE)
        except KeyboardInterrupt:
            catalog.withdraw(number)
            raise
        catalog.delete_request(number)
    found = Registration.from_text(answer)
    if found.failure:
        raise CatalogError(found.failure)
    return found
