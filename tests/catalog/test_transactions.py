from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.catalog.examples import TRADES, answers, query
from weft.algebra import Query
from weft.catalog import Catalog, CatalogError


class Undone(Exception):
    """Raised by these tests to leave a transaction."""


def names(catalog: Catalog) -> list[str]:
    """The names of the queries, as the catalog says and as the file does."""
    with Catalog.open(catalog.path.parent, write=False) as reader:
        assert reader.queries() == catalog.queries()
    return [each.name for each in catalog.queries()]


def test_a_transaction_is_kept_as_a_whole(catalog: Catalog) -> None:
    with Catalog.open(catalog.path.parent, write=False) as reader:
        with catalog.transaction():
            catalog.add(query("a"))
            catalog.set_setting("sharing", False)
            assert catalog.query("a") == query("a")
            assert reader.queries() == ()
        assert reader.queries() == (query("a"),)
        assert reader.setting("sharing") is False


def test_a_transaction_is_undone_as_a_whole(catalog: Catalog) -> None:
    catalog.add(query("kept"))
    with suppress(Undone), catalog.transaction():
        catalog.add(query("a"))
        catalog.drop(Query, "kept")
        catalog.set_setting("sharing", False)
        catalog.record_statistics(1, {"trades": {"rows": 1}})
        catalog.append_plan(1, ())
        assert catalog.submit("…") == 1
        assert [each.name for each in catalog.queries()] == ["a"]
        raise Undone
    assert names(catalog) == ["kept"]
    assert catalog.settings().stored == {}
    assert catalog.latest_statistics() == {}
    assert catalog.latest_plan() is None
    assert catalog.pending() == ()


def test_what_was_undone_leaves_no_trace_under_its_number(catalog: Catalog) -> None:
    with suppress(Undone), catalog.transaction():
        catalog.add(query("undone", above=1.0))
        assert catalog.query("undone") == query("undone", above=1.0)
        raise Undone
    catalog.add(query("done", above=2.0))
    assert names(catalog) == ["done"]


def test_an_inner_transaction_fails_alone(catalog: Catalog) -> None:
    with catalog.transaction():
        catalog.add(query("a"))
        with pytest.raises(CatalogError, match="'A' cannot be added"):
            catalog.add(query("A"))
        with suppress(Undone), catalog.transaction():
            catalog.add(query("b"))
            with catalog.transaction():
                catalog.add(query("c", answers("b")))
            raise Undone
        catalog.add(query("d"))
    assert names(catalog) == ["a", "d"]


@pytest.fixture
def full(catalog: Catalog) -> Iterator[Catalog]:
    """A catalog with one query, on a disk without room for more."""
    catalog.add(query("kept"))
    ((pages,),) = catalog._database.execute("PRAGMA page_count")
    catalog._database.execute(f"PRAGMA max_page_count = {pages}")
    yield catalog
    catalog._database.execute("PRAGMA max_page_count = 1000000")
    assert catalog.settings().stored == {}
    catalog.add(query("after"))
    assert names(catalog) == ["kept", "after"]


def test_a_full_disk_is_reported_and_changes_nothing(full: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"disk .* is full; nothing was changed; make room"):
        full.set_setting("big", "x" * 100_000)


def test_a_transaction_that_the_full_disk_has_ended_does_not_go_on(full: Catalog) -> None:
    def ignore_the_error() -> None:
        with full.transaction():
            full.set_setting("before", 1)
            with suppress(CatalogError):
                full._database.execute("INSERT INTO requests (script) VALUES (?)", ("x" * 100_000,))
            full.set_setting("after", 1)

    with pytest.raises(CatalogError, match=r"an error has ended the transaction .*; leave it and start again"):
        ignore_the_error()


def test_a_reader_sees_one_state_in_a_transaction(catalog: Catalog) -> None:
    with Catalog.open(catalog.path.parent, write=False) as reader:
        with reader.transaction():
            assert reader.queries() == ()
            catalog.add(query("a"))
            assert reader.queries() == ()
            with reader.transaction():
                assert reader.find("a") is None
        assert reader.find("a") == query("a")


def test_threads_take_turns(catalog: Catalog) -> None:
    problems = []

    def work(thread: int) -> None:
        try:
            for n in range(20):
                with catalog.transaction():
                    catalog.add(query(f"q{thread}_{n}"))
                    assert len(catalog.queries()) > n // 2
                if n % 2:
                    catalog.drop(Query, f"q{thread}_{n}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sorted(names(catalog)) == sorted(f"q{thread}_{n}" for thread in range(4) for n in range(0, 20, 2))
    assert catalog.streams() == (TRADES,)
