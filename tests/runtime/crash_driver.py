"""A driver process for the crash tests: runs a project to its end, or dies at a step of a cycle.

    python -m tests.runtime.crash_driver <directory> [<step> <cycle>]

The directory holds the files of two streams, one per cycle. Every kind of state that an operator can have is in use.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.runtime.trades_and_quotes import STREAMS, stream_statement
from tests.support.spark_session import session
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.state import store

QUERIES = {
    "windowed": "SELECT sym, SUM(qty) AS total, AVG(price) AS mean FROM trades [ROWS 20 SLIDE 10] GROUP BY sym",
    "running": "SELECT sym, COUNT(*) AS c, MAX(price) AS top FROM trades GROUP BY sym",
    "joined": (
        "SELECT t.n, t.sym, q.bid FROM trades t [ROWS 10], quotes q [ROWS 10] WHERE t.sym = q.sym AND q.bid < t.price"
    ),
    "news": "SELECT DISTINCT sym, qty FROM trades RETAIN 15",
    "both": (
        "SELECT sym FROM trades [ROWS 20 SLIDE 20] GROUP BY sym "
        "EXCEPT SELECT sym FROM quotes [ROWS 20 SLIDE 20] WHERE bid > 6 GROUP BY sym"
    ),
    "derived": "SELECT MAX(total) AS most FROM windowed [ROWS 20 SLIDE 20]",
    # Long enough that the partials and the rows of several cycles are kept.
    "wide": "SELECT sym, MAX(price) AS top, STDDEV(qty) AS spread FROM trades [ROWS 60 SLIDE 15] GROUP BY sym",
    "spelt": "SELECT COUNT(DISTINCT sym) AS syms FROM quotes [ROWS 60 SLIDE 15]",
    "gone": "SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 5] WHERE qty > 1",
    "late": "SELECT sym, SUM(qty) AS total FROM trades [ROWS 10 SLIDE 5] WHERE price > 2 GROUP BY sym",
}

#: Before this cycle the plan changes: one query is dropped, another created.
SWITCH, DROPPED, CREATED = 3, "gone", "late"

SINKS = {
    "windowed": "json",
    "running": "parquet",
    "joined": "parquet",
    "news": "json",
    "both": "parquet",
    "derived": "json",
    "wide": "parquet",
    "spelt": "json",
    "gone": "json",
    "late": "parquet",
}

#: Logs of more segments are rewritten as one, so that a run of a few cycles does that too.
MOST_SEGMENTS = 1


def query_statement(name: str, directory: Path | None = None) -> str:
    into = f" INTO {SINKS[name]} OPTIONS (path '{directory / 'out' / name}')" if directory else ""
    return f"CREATE CONTINUOUS QUERY {name}{into} AS {QUERIES[name]}"


def declare(loom: Loom, directory: Path) -> None:
    """Register the streams and queries, the first time."""
    if loom.catalog.streams():
        return
    with loom.catalog.transaction():
        for name in STREAMS:
            loom.execute(stream_statement(name, directory))
        for name in [each for each in QUERIES if each != CREATED]:
            loom.execute(query_statement(name, directory))


def switch(loom: Loom, directory: Path) -> None:
    """Change the plan, unless a process before this one has."""
    if DROPPED in {query.name for query in loom.catalog.queries()}:
        with loom.catalog.transaction():
            loom.drop(DROPPED)
            loom.execute(query_statement(CREATED, directory))


def main(directory: Path, death: tuple[str, int] | None) -> None:
    """Run the project in a directory; at the step and cycle of its death, Python and Java die together."""

    def die_there(step: str, cycle: int) -> None:
        if (step, cycle) == death:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    store.MOST_SEGMENTS = MOST_SEGMENTS  # type: ignore[misc]
    spark = session()
    with Loom.open(directory / "project") as loom:
        declare(loom, directory)
        engine = Engine(spark, loom.catalog, state_directory(loom.directory), on_step=die_there)
        engine.before_cycle = lambda: switch(loom, directory) if engine.last.cycle == SWITCH - 1 else None
        engine.start(until_idle=True)
        engine.wait()


if __name__ == "__main__":
    place, *death = sys.argv[1:]
    main(Path(place), (death[0], int(death[1])) if death else None)
