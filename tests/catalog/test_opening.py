"""Files that are new, old, too new, someone else's, damaged, or out of reach."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.catalog.examples import SYMBOLS, TRADES, join_with_table, query
from weft.algebra import Query, Table
from weft.catalog import CATALOG_FILE, Catalog, CatalogError, schema


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A closed catalog with a stream and a few hundred queries."""
    with Catalog.open(tmp_path) as catalog, catalog.transaction():
        catalog.add(TRADES)
        for n in range(300):
            catalog.add(query(f"q{n}"))
    return tmp_path / CATALOG_FILE


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(f"PRAGMA {name}").fetchone()
        return found[0] if found else None


def test_a_new_catalog_is_in_the_newest_version_and_wal_mode(filled: Path) -> None:
    assert pragma(filled, "user_version") == schema.VERSION
    assert pragma(filled, "application_id") == schema.APPLICATION_ID == int.from_bytes(b"weft", "big")
    assert pragma(filled, "journal_mode") == "wal"
    assert pragma(filled, "integrity_check") == "ok"


def test_the_writer_syncs_normally_and_checks_foreign_keys(catalog: Catalog) -> None:
    assert catalog._database.execute("PRAGMA synchronous") == [(1,)]
    assert catalog._database.execute("PRAGMA foreign_keys") == [(1,)]
    with pytest.raises(CatalogError, match="FOREIGN KEY"):
        catalog._database.execute("INSERT INTO definitions (id, document, member) VALUES (77, '', 0)")


def test_reading_needs_a_catalog_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"no catalog at .*; create one by opening it for writing"):
        Catalog.open(tmp_path, write=False)
    assert list(tmp_path.iterdir()) == []
    Catalog.open(tmp_path).close()
    before = sorted(tmp_path.iterdir())
    with Catalog.open(tmp_path, write=False) as reader:
        assert reader.queries() == ()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("write", [True, False])
def test_a_missing_directory_is_reported(tmp_path: Path, write: bool) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file", "file/below"):
        with pytest.raises(CatalogError, match=r"is not a directory.*create it first"):
            Catalog.open(tmp_path / name, write=write)


def test_a_file_left_empty_by_a_crash_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / CATALOG_FILE).touch()
    with pytest.raises(CatalogError, match="still empty"):
        Catalog.open(tmp_path, write=False)
    with Catalog.open(tmp_path) as catalog:
        catalog.add(TRADES)


@pytest.mark.parametrize("write", [True, False])
def test_another_programs_database_is_refused_and_not_touched(tmp_path: Path, write: bool) -> None:
    path = tmp_path / CATALOG_FILE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE precious (x)")
    before = path.read_bytes()
    with pytest.raises(CatalogError, match="another program's database; move it away"):
        Catalog.open(tmp_path, write=write)
    assert path.read_bytes() == before


@pytest.mark.parametrize("write", [True, False])
def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path, write: bool) -> None:
    (tmp_path / CATALOG_FILE).write_text("SELECT * FROM the_wrong_file;\n" * 100)
    with pytest.raises(CatalogError, match=r"catalog\.sqlite is not an SQLite file; move it away"):
        Catalog.open(tmp_path, write=write)


@pytest.mark.parametrize("write", [True, False])
def test_a_directory_in_its_place_is_refused(tmp_path: Path, write: bool) -> None:
    (tmp_path / CATALOG_FILE).mkdir()
    with pytest.raises(CatalogError, match="cannot be opened"):
        Catalog.open(tmp_path, write=write)


def test_damage_is_found_on_opening_for_writing(filled: Path) -> None:
    data = bytearray(filled.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = bytes(20_000)
    filled.write_bytes(data)
    with pytest.raises(CatalogError, match=r"is damaged .*; restore it from a backup"):
        Catalog.open(filled.parent)
    Path(filled.parent / CATALOG_FILE).unlink()
    Catalog.open(filled.parent).close()  # the lock was let go


def test_a_truncated_file_is_refused(filled: Path) -> None:
    os.truncate(filled, filled.stat().st_size // 2)
    with pytest.raises(CatalogError, match="is damaged"):
        Catalog.open(filled.parent)
    with pytest.raises(CatalogError, match="is damaged"), Catalog.open(filled.parent, write=False) as reader:
        reader.queries()


def test_a_bound_form_that_cannot_be_read_names_its_query(filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("UPDATE definitions SET document = '[[\"Unheard\",1]]' WHERE id = 5")
        schema.write_checksums(connection)
    with Catalog.open(filled.parent) as catalog:
        assert catalog.query("q2") == query("q2")
        with pytest.raises(CatalogError, match=r"query 'q3': row 0 names 'Unheard'.*restore"):
            catalog.queries()


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("definitions", "UPDATE definitions SET document = document || ' ' WHERE id = 5"),
        ("definitions", "DELETE FROM definitions WHERE id = 5"),
        ("definitions", "UPDATE definitions SET document = replace(document, '0', '1') WHERE id = 1"),
        ("names", "UPDATE names SET name = 'Q3' WHERE id = 5"),
        ("dependencies", "DELETE FROM dependencies WHERE reader = 5"),
        ("settings", "INSERT INTO settings (key, value) VALUES ('sharing', '\"off\"')"),
        ("checksums", "DELETE FROM checksums WHERE name = 'definitions'"),
        ("checksums", "UPDATE checksums SET total = total + 1 WHERE name = 'definitions'"),
    ],
)
def test_a_value_that_is_not_as_it_was_written_is_noticed(filled: Path, write: bool, table: str, damage: str) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        assert connection.execute(damage).rowcount == 1
    named = "definitions" if table == "checksums" else table
    with pytest.raises(CatalogError, match=f"the checksum of its table '{named}' differs.*restore"):
        Catalog.open(filled.parent, write=write)


def test_every_change_keeps_the_checksums(filled: Path) -> None:
    for change in (
        lambda catalog: catalog.set_setting("max_results", 7),
        lambda catalog: catalog.set_setting("max_results", 8),
        lambda catalog: catalog.drop(Query, "q3"),
        lambda catalog: catalog.add(query("q3")),
    ):
        with Catalog.open(filled.parent) as catalog:
            change(catalog)
            with Catalog.open(filled.parent, write=False) as reader:
                assert reader.query_numbers() == catalog.query_numbers()
                assert reader.settings() == catalog.settings()


@pytest.mark.parametrize("write", [True, False])
def test_a_file_of_a_newer_weft_is_refused_and_not_touched(filled: Path, write: bool) -> None:
    newer = schema.VERSION + 1
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    before = filled.read_bytes()
    with pytest.raises(CatalogError, match=f"schema version {newer} and .* newer weft wrote it; upgrade weft"):
        Catalog.open(filled.parent, write=write)
    assert filled.read_bytes() == before


@pytest.mark.parametrize("write", [True, False])
def test_a_file_of_an_older_weft_is_refused_and_not_touched(filled: Path, write: bool) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("PRAGMA user_version = 1")
    before = filled.read_bytes()
    with pytest.raises(CatalogError, match=r"version 1 and this weft reads .* older weft wrote it; move it away"):
        Catalog.open(filled.parent, write=write)
    assert filled.read_bytes() == before


def test_tables_are_made_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_TABLES", "CREATE TABLE half (x);\nSELECT * FROM nowhere;\n")
        with pytest.raises(CatalogError, match="nowhere"):
            Catalog.open(tmp_path)
    assert pragma(tmp_path / CATALOG_FILE, "user_version") == 0
    with closing(sqlite3.connect(tmp_path / CATALOG_FILE)) as connection:
        assert not connection.execute("SELECT * FROM sqlite_master WHERE name = 'half'").fetchall()
    Catalog.open(tmp_path).close()


def test_names_and_numbers_are_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.add(TRADES)
        for name in ("a", "b", "c"):
            catalog.add(query(name))
        catalog.drop(Query, "c")
        numbers = catalog.query_numbers()
    with Catalog.open(tmp_path) as catalog:
        assert catalog.query_numbers() == numbers
        assert catalog.query("b") == query("b")
        assert catalog.readers("trades") == ("a", "b")
        catalog.add(SYMBOLS)
        catalog.add(join_with_table("d"))
        # The number of what was dropped is not used again.
        assert catalog.table_numbers() == {"symbols": max(numbers.values()) + 2}
        with pytest.raises(CatalogError, match="table 'symbols' is read by 'd'"):
            catalog.drop(Table, "symbols")
        catalog.drop(Query, "d")
        catalog.drop(Table, "symbols")
        catalog.drop(Query, "a")
    assert pragma(tmp_path / CATALOG_FILE, "foreign_key_check") is None
    assert pragma(tmp_path / CATALOG_FILE, "integrity_check") == "ok"


def show(directory: Path) -> None:
    """Let other users read a catalog, which is private unless its owner changes that."""
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


class TestPermissions:
    """What another user, who may look but not touch, gets to see."""

    NOBODY = 65534

    @pytest.fixture
    def shown(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name, Catalog.open(name) as catalog:
            catalog.add(TRADES)
            show(Path(name))
            yield Path(name)

    def as_nobody(self, action: Callable[[], str]) -> str:
        """What `action` returns, or the error it raises, in a process of a user without rights."""
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setuid(self.NOBODY)
                outcome = action()
            except BaseException as error:
                outcome = f"{type(error).__name__}: {error}"
            os.write(theirs, outcome.encode())
            os._exit(0)
        os.close(theirs)
        with open(ours, encoding="utf-8") as answer:
            os.waitpid(child, 0)
            return answer.read()

    def test_writing_is_refused_in_a_read_only_directory(self, shown: Path) -> None:
        def write() -> str:
            Catalog.open(shown)
            return "written"

        assert "make room and the directory writable, or open the catalog for reading" in self.as_nobody(write)

    def test_writing_a_read_only_file_is_refused_on_opening(self) -> None:
        def write() -> str:
            Catalog.open(name)
            return "written"

        with tempfile.TemporaryDirectory() as name:
            Catalog.open(name).close()
            show(Path(name))
            os.chmod(name, 0o777)
            (Path(name) / "writer.lock").chmod(0o666)
            assert "make the file and its directory writable" in self.as_nobody(write)

    def test_reading_works_beside_a_writer(self, shown: Path) -> None:
        def read() -> str:
            with Catalog.open(shown, write=False) as reader:
                return ", ".join(reader.known_names())

        assert self.as_nobody(read) == "trades"

    def test_reading_works_without_a_writer_and_sees_the_next_one(self) -> None:
        def read() -> str:
            with Catalog.open(name, write=False) as reader:
                first = reader.known_names()
                os.write(told, b"1")
                os.read(tell, 1)
                second = reader.known_names()
                os.write(told, b"2")
                os.read(tell, 1)
                return str([first, second, reader.known_names()])

        with tempfile.TemporaryDirectory() as name:
            with Catalog.open(name) as catalog:
                catalog.add(TRADES)
            show(Path(name))
            (tell, say), (hear, told) = os.pipe(), os.pipe()
            writer = os.fork()
            if writer == 0:
                try:
                    os.read(hear, 1)
                    with Catalog.open(name) as catalog:
                        catalog.add(query("a"))
                        os.write(say, b"1")
                        os.read(hear, 1)
                        catalog.add(query("b"))
                    os.write(say, b"2")
                finally:
                    os._exit(0)
            assert self.as_nobody(read) == "[['trades'], ['trades', 'a'], ['trades', 'a', 'b']]"
            os.waitpid(writer, 0)

    def test_submitting_needs_the_right_to_write(self, shown: Path) -> None:
        def submit() -> str:
            with Catalog.open(shown, write=False) as reader:
                return str(reader.submit("DROP STREAM trades"))

        assert "cannot be written" in self.as_nobody(submit)
