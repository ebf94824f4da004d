"""A query that fails does so alone: the others go on, and what it missed comes when the cause is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.runtime.projects import rows_of
from tests.runtime.workload_run import Crash, Run
from weft.runtime.spark.engine_errors import StorageError
from weft.runtime.state.commits import Trouble, errors_of

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path 'unused');"
SELECTED = "CREATE CONTINUOUS QUERY {name}{into} AS SELECT n, v FROM s WHERE v > 1;"


class Inbox:
    """A function that takes answers, unless it is broken."""

    def __init__(self) -> None:
        self.is_broken = False
        self.taken: list[tuple[int, list[tuple[object, ...]]]] = []

    def __call__(self, answers: pa.Table, cycle: int) -> None:
        if self.is_broken:
            raise RuntimeError("the inbox is full")
        self.taken.append((cycle, rows_of(answers)))


@pytest.fixture
def run(beside_oracle: Callable[[str], Run]) -> Run:
    return beside_oracle(STREAM + SELECTED.format(name="a", into="") + SELECTED.format(name="b", into=""))


def sentence_of(run: Run, name: str) -> str:
    return errors_of(run.engine.last)[name].sentence


# Sinks


def test_a_function_that_raises_stops_its_query_alone_and_gets_every_cycle_later(run: Run) -> None:
    inbox = Inbox()
    run.engine.outbox.add_callable("a", inbox)
    for cycle, is_broken in enumerate([False, True, False, False]):
        inbox.is_broken = is_broken
        assert run.take(s=[(cycle, 2), (cycle, 3), (cycle, 0)]) == ""
    # It would take the answers of cycle 2 by then; but those of cycle 1 wait, and come first.
    assert [cycle for cycle, _ in inbox.taken] == [0]
    assert sentence_of(run, "a").endswith("does not take the answers of cycle 1: RuntimeError: the inbox is full")
    assert errors_of(run.engine.last).keys() == {"a"}
    run.engine.in_error.try_again({"a"})
    assert inbox.taken == [(cycle, [(cycle, 2), (cycle, 3)]) for cycle in range(4)]
    assert errors_of(run.engine.last) == {}
    assert run.take(s=[(4, 2)]) == ""
    assert inbox.taken[4:] == [(4, [(4, 2)])]


def test_what_waits_for_a_sink_survives_the_end_of_the_process(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run.execute(SELECTED.format(name="c", into=f" INTO json OPTIONS (path '{folder}')"))
    folder.write_text("a file where the folder should be")
    assert run.take(s=[(1, 2)]) == ""
    assert str(folder) in sentence_of(run, "c")
    run.crash_at = "rename"
    assert run.take(s=[(2, 2)]) == ""
    run.restart()
    assert run.take(s=[(3, 2)]) == ""
    folder.unlink()
    for step in ("try again", "rename anew", "after anew"):
        run.crash_at = step
        with pytest.raises(Crash):
            run.engine.in_error.try_again({"c"})
        run.crash_at = None
        run.restart()
        if not errors_of(run.engine.last):
            break
    assert {file.name: file.read_text() for file in folder.glob("0*")} == {
        f"{cycle:012d}.json": f'{{"n": {cycle + 1}, "v": 2}}\n' for cycle in range(3)
    }
    assert not list((run.directory / "state" / "waiting").glob("*/*"))


def test_answers_beyond_the_retention_are_dropped_oldest_first_and_that_is_on_record(run: Run) -> None:
    inbox = Inbox()
    inbox.is_broken = True
    run.engine.outbox.add_callable("a", inbox)
    assert run.take(s=[(0, 2)]) == ""
    run.loom.execute("SET error_retention = 0")
    assert run.take(s=[(1, 2)]) == ""
    run.loom.execute("SET error_retention = 1")
    assert run.take(s=[(2, 2)]) == ""
    inbox.is_broken = False
    run.engine.in_error.try_again({"a"})
    assert inbox.taken == [(2, [(2, 2)])]
    lost = run.engine.last.waiting["a"].lost
    assert lost is not None
    assert (lost.first, lost.last) == (0, 1)


def test_answers_that_were_changed_on_disk_while_they_waited_are_not_delivered(run: Run) -> None:
    inbox = Inbox()
    inbox.is_broken = True
    run.engine.outbox.add_callable("a", inbox)
    assert run.take(s=[(0, 2)]) == ""
    (file,) = (run.directory / "state" / "waiting").glob("*/*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    inbox.is_broken = False
    with pytest.raises(StorageError, match=r"waiting/.* has been changed"):
        run.restart()
    assert inbox.taken == []


# Pauses


def test_pauses_between_tries_double_up_to_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    trouble, pauses = Trouble.begin("broken"), []
    for _ in range(8):
        pauses.append(trouble.next_try - 1000.0)
        trouble = trouble.again("still broken")
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    assert (trouble.since, trouble.tries, trouble.sentence) == (1000.0, 9, "still broken")
