"""Several processes on one directory: one writer, any number of readers, and writers that die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.catalog.examples import TRADES, answers, query
from weft.algebra import Query
from weft.catalog import Catalog, CatalogLocked, Writer, find_writer

ROOT = Path(__file__).parents[2]
PRELUDE = """
import sys
from tests.catalog.examples import *
from weft.catalog import *
directory = sys.argv[1]
def say(what): print(what, flush=True)
"""


@contextmanager
def process(directory: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """Another Python that runs `code` on the directory; killed at the end if it is still there."""
    command = [sys.executable, "-c", PRELUDE + code, str(directory)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with process(tmp_path, "catalog = Catalog.open(directory); say('open'); sys.stdin.read()") as child:
        assert heard(child) == "open"
        who = f"process {child.pid} on {socket.gethostname()}"
        said = rf"{tmp_path} is open for writing by {who}; repeat when it is done"
        with pytest.raises(CatalogLocked, match=said) as refused:
            Catalog.open(tmp_path)
        assert refused.value.holder == who
        with Catalog.open(tmp_path, write=False) as reader:
            assert reader.streams() == ()
        child.kill()
        child.wait()
        with Catalog.open(tmp_path) as catalog:  # the lock has died with its holder
            catalog.add(TRADES)


def test_a_second_writer_waits_for_one_that_is_about_to_end(tmp_path: Path) -> None:
    with process(tmp_path, "catalog = Catalog.open(directory); say('open'); sys.stdin.readline()") as child:
        assert heard(child) == "open"
        assert child.stdin
        ending = threading.Timer(0.3, lambda: print("end", file=child.stdin, flush=True))
        ending.start()
        Catalog.open(tmp_path, patience=60.0).close()
        ending.join()


def test_a_writer_that_answers_requests_is_not_waited_for(tmp_path: Path) -> None:
    code = "catalog = Catalog.open(directory); catalog.announce(); say('open'); sys.stdin.readline()"
    with process(tmp_path, code) as child:
        assert heard(child) == "open"
        who = f"process {child.pid} on {socket.gethostname()}"
        assert find_writer(tmp_path) == Writer(who, answers=True)
        with pytest.raises(CatalogLocked, match=f"{who}; stop it first, or change it while it runs") as refused:
            Catalog.open(tmp_path, patience=3600.0)
        assert refused.value.answers
        child.kill()
        child.wait()
        assert find_writer(tmp_path) is None


def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with (
        Catalog.open(tmp_path),
        pytest.raises(CatalogLocked, match=f"process {os.getpid()} on {socket.gethostname()}"),
    ):
        Catalog.open(tmp_path)
    Catalog.open(tmp_path).close()


def test_a_fork_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(wait, 1)
        os._exit(0)
    with pytest.raises(CatalogLocked):
        Catalog.open(tmp_path)
    catalog.close()
    Catalog.open(tmp_path).close()
    os.write(go, b"!")
    os.waitpid(child, 0)


def test_a_lock_is_released_although_a_fork_still_shares_its_descriptor(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    shared = os.dup(catalog._lock._descriptor)  # what a fork has until it comes to run
    catalog.close()
    Catalog.open(tmp_path).close()
    os.close(shared)


def test_a_reader_in_another_process_sees_each_commit(catalog: Catalog) -> None:
    code = """
with Catalog.open(directory, write=False) as reader:
    for _ in sys.stdin:
        say([query.name for query in reader.queries()])
"""
    with process(catalog.path.parent, code) as child:
        assert child.stdin

        def seen() -> str:
            print("look", file=child.stdin, flush=True)
            return heard(child)

        assert seen() == "[]"
        catalog.add(query("a"))
        assert seen() == "['a']"
        with catalog.transaction():
            catalog.add(query("b"))
            catalog.drop(Query, "a")
            assert seen() == "['a']"
        assert seen() == "['b']"


def test_a_writer_killed_in_a_transaction_leaves_the_state_before_it(tmp_path: Path) -> None:
    code = """
catalog = Catalog.open(directory)
catalog.add(TRADES)
catalog.add(query('kept'))
with catalog.transaction():
    catalog.drop(Query, 'kept')
    for n in range(2000):  # more than SQLite's cache holds back from the file
        catalog.add(query(f'lost{n}'))
    say('ready')
    sys.stdin.read()
"""
    with process(tmp_path, code) as child:
        assert heard(child) == "ready"
        child.send_signal(signal.SIGKILL)
        child.wait()
    with Catalog.open(tmp_path) as catalog:
        assert catalog.known_names() == ["trades", "kept"]
        assert catalog._database.execute("PRAGMA integrity_check") == [("ok",)]
        catalog.add(query("next", answers("kept")))


def test_a_writer_killed_at_any_time_leaves_every_query_it_had_confirmed(tmp_path: Path) -> None:
    code = """
catalog = Catalog.open(directory)
catalog.add(TRADES)
n = 0
while True:
    catalog.add(query(f'q{n}'))
    say(n)
    n += 1
"""
    with process(tmp_path, code) as child:
        while heard(child) != "200":
            pass
        child.send_signal(signal.SIGKILL)
        assert child.stdout
        confirmed = 201 + len(child.stdout.readlines())
    with Catalog.open(tmp_path) as catalog:
        names = [each.name for each in catalog.queries()]
        assert names == [f"q{n}" for n in range(len(names))]
        assert len(names) in (confirmed, confirmed + 1)
        assert catalog._database.execute("PRAGMA integrity_check") == [("ok",)]
        assert catalog._database.execute("PRAGMA foreign_key_check") == []


def test_another_process_can_submit_a_statement_and_read_the_answer(catalog: Catalog) -> None:
    code = """
with Catalog.open(directory, write=False) as reader:
    number = reader.submit("DROP CONTINUOUS QUERY hot")
    say(number)
    sys.stdin.readline()
    say(reader.request(number).answer)
"""
    catalog.add(query("hot"))
    with process(catalog.path.parent, code) as child:
        number = int(heard(child))
        (request,) = catalog.pending()
        assert (request.id, request.script) == (number, "DROP CONTINUOUS QUERY hot")
        with catalog.transaction():
            catalog.drop(Query, "hot")
            catalog.answer(number, "dropped query 'hot'")
        print("answered", file=child.stdin, flush=True)
        assert heard(child) == "dropped query 'hot'"
