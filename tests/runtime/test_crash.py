"""A driver that dies at any step of a cycle, and is started again, leaves the answers of one that never died."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle import Values
from tests.oracle_script import Script
from tests.runtime.crash_driver import (
    CREATED,
    DROPPED,
    QUERIES,
    SINKS,
    SWITCH,
    query_statement,
)
from tests.runtime.trades_and_quotes import STREAMS, Rows, arrivals, stream_statement, write_files
from tests.runtime.workload_run import values_of
from tests.support.peers import difference
from weft.algebra import Relation
from weft.arrays.arrow_types import arrow_type
from weft.loom import Loom

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

CYCLES = 5

#: Every step that the engine names, in the order of a cycle.
STEPS = ("begin", "ingest", "weave", "keep", "answer", "compact", "deliver", "commit", "rename", "after commit")


def oracle_answers(cycles: Sequence[Rows]) -> tuple[dict[str, Relation], dict[str, list[list[Values]]]]:
    """The relation of each query, and its answers in each cycle."""
    first = [name for name in QUERIES if name != CREATED]
    script = Script(";".join([*map(stream_statement, STREAMS), *map(query_statement, first)]))
    relations = {name: script.query(name).relation for name in first}
    answered = []
    for number, rows in enumerate(cycles):
        if number == SWITCH:
            script.run(f"DROP CONTINUOUS QUERY {DROPPED}; {query_statement(CREATED)}")
            relations[CREATED] = script.query(CREATED).relation
        answered.append(script.cycle(**rows))
    return relations, {name: [answers.get(name, []) for answers in answered] for name in QUERIES}


def run_driver(directory: Path, death: tuple[str, int] | None = None) -> int:
    """Run the driver in a session of its own, and say how it ended."""
    command = [sys.executable, "-m", "tests.runtime.crash_driver", str(directory)]
    if death is not None:
        command += [death[0], str(death[1])]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, start_new_session=True, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-4000:]
    return done.returncode


def sink_table(file: Path, relation: Relation) -> pa.Table:
    """What a sink wrote, in the types of the relation."""
    if file.suffix == ".parquet":
        return pq.read_table(file)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return pa.table(
        {field.name: pa.array([row[field.name] for row in rows], arrow_type(field.type)) for field in relation.fields}
    )


def check_answers(directory: Path, cycles: Sequence[Rows]) -> None:
    """The sinks and the results hold exactly what the oracle says, each cycle once."""
    relations, expected = oracle_answers(cycles)
    for name, relation in relations.items():
        written = {int(file.stem): file for file in (directory / "out" / name).glob(f"*.{SINKS[name]}")}
        assert sorted(written) == [cycle for cycle, answers in enumerate(expected[name]) if answers], name
        for cycle, file in written.items():
            found = values_of(sink_table(file, relation), relation)
            assert difference(relation, expected[name][cycle], found) == "", f"{name}, cycle {cycle}"
    with Loom.open(directory / "project", write=False) as loom:
        for name, relation in [each for each in relations.items() if each[0] != DROPPED]:
            everything = [answer for answers in expected[name] for answer in answers]
            assert difference(relation, everything, values_of(loom.results(name), relation)) == "", name


def check_survival(directory: Path, deaths: Sequence[tuple[str, int]]) -> None:
    """Die at these steps, one after another, then run to the end; the answers are those of a run without deaths."""
    cycles = arrivals(CYCLES, seed=7)
    write_files(directory, cycles)
    for death in deaths:
        assert run_driver(directory, death) == -signal.SIGKILL, f"the driver did not reach {death}"
    assert run_driver(directory) == 0
    check_answers(directory, cycles)


def test_the_rows_exercise_every_query() -> None:
    """Each query has answers in more than one cycle, so that a lost or repeated cycle would show."""
    _, expected = oracle_answers(arrivals(CYCLES, seed=7))
    for name, cycles in expected.items():
        # One that comes for the last two cycles has no window that closes before the last of them.
        assert sum(bool(answers) for answers in cycles) >= (1 if name == CREATED else 2), name


def test_a_driver_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    check_survival(tmp_path, [("deliver", 1), ("rename", 3)])


@pytest.mark.prove
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_killed_at_any_step_loses_and_repeats_nothing(tmp_path: Path, step: str) -> None:
    check_survival(tmp_path, [(step, 3), (step, 4)])
