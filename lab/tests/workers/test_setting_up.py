"""Which queries stay together, the scripts that come of it, and the files of a provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.workers.assignment import (
    Fixed,
    read_assignment,
    read_fixed,
    write_assignment,
    write_fixed,
)
from lab.workers.parts import Part, parts
from lab.workers.provider import Provider
from weft.federation import FederationError
from weft.loom import Loom

STREAMS = """
    CREATE STREAM trades (n BIGINT, sym STRING, qty BIGINT) WATERMARK FOR n AS n USING memory;
    CREATE STREAM quotes (n BIGINT, sym STRING, bid DOUBLE) WATERMARK FOR n AS n USING memory;
    SET max_results = 50;
    CREATE VIEW large AS SELECT n, sym, qty FROM trades WHERE qty > 5;
"""
TOTALS = "CREATE CONTINUOUS QUERY totals AS SELECT sym, SUM(qty) AS total FROM trades [ROWS 10 SLIDE 5] GROUP BY sym"
COUNTS = "CREATE CONTINUOUS QUERY counts AS SELECT sym, COUNT(*) AS c FROM trades [ROWS 20 SLIDE 5] GROUP BY sym"
OVERALL = "CREATE CONTINUOUS QUERY overall AS SELECT COUNT(*) AS c FROM trades [ROWS 20 SLIDE 5]"
HIGHEST = "CREATE CONTINUOUS QUERY highest AS SELECT MAX(total) AS most FROM totals [ROWS 20 SLIDE 20]"
BIDS = "CREATE CONTINUOUS QUERY bids AS SELECT sym, MAX(bid) AS top FROM quotes [ROWS 10 SLIDE 5] GROUP BY sym"
SEEN = "CREATE CONTINUOUS QUERY seen AS SELECT n, sym FROM large WHERE qty > 7"


def _script(*queries: str) -> str:
    return STREAMS + ";".join(queries)


def _queries(found: tuple[Part, ...]) -> list[tuple[str, ...]]:
    return [part.queries for part in found]


def test_queries_with_the_same_streams_and_keys_stay_together(tmp_path: Path) -> None:
    found = parts(tmp_path, _script(TOTALS, BIDS, COUNTS, OVERALL))
    assert _queries(found) == [("totals", "counts"), ("bids",), ("overall",)]


def test_a_query_stays_with_the_one_whose_answers_it_reads(tmp_path: Path) -> None:
    found = parts(tmp_path, _script(TOTALS, OVERALL, HIGHEST))
    assert _queries(found) == [("totals", "highest"), ("overall",)]


def test_a_part_has_what_its_queries_read_and_no_more(tmp_path: Path) -> None:
    trades, quotes = parts(tmp_path / "all", _script(SEEN, BIDS))
    with Loom.open(tmp_path / "trades") as loom:
        loom.execute(trades.script)
        assert [stream.name for stream in loom.catalog.streams()] == ["trades"]
        assert [view.name for view in loom.catalog.views()] == ["large"]
        assert loom.catalog.setting("max_results", None) is not None
    with Loom.open(tmp_path / "quotes") as loom:
        loom.execute(quotes.script)
        assert [stream.name for stream in loom.catalog.streams()] == ["quotes"]
        assert loom.catalog.views() == ()


def test_a_script_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="no continuous query"):
        parts(tmp_path, STREAMS)


def test_a_script_that_drops_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="CREATE and SET"):
        parts(tmp_path, _script(TOTALS, "DROP CONTINUOUS QUERY totals"))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    fixed = Fixed(("a", "b"), {"f0": ("q",)}, "local[2]", "1 second", {"spark.x": "y"})
    write_fixed(tmp_path, fixed)
    assert read_fixed(tmp_path) == fixed
    write_assignment(tmp_path, {"f0": "a"})
    write_assignment(tmp_path, {"f0": "b"})
    assert read_assignment(tmp_path) == {"f0": "b"}


def test_fragments_go_to_workers_in_turn_and_move_by_name(tmp_path: Path) -> None:
    provider = Provider.create(tmp_path / "p", _script(TOTALS, BIDS, OVERALL), ("left", "right"))
    assert provider.assigned == {"f0": "left", "f1": "right", "f2": "left"}
    provider.move("f2", "right")
    assert Provider(tmp_path / "p").assigned == {"f0": "left", "f1": "right", "f2": "right"}
    assert provider.committed() == {"f0": -1, "f1": -1, "f2": -1}
    with pytest.raises(FederationError, match="no fragment 'f9'"):
        provider.move("f9", "left")
    with pytest.raises(FederationError, match="no worker 'middle'"):
        provider.move("f0", "middle")
    with pytest.raises(FederationError, match="no query 'nothing'"):
        provider.results("nothing")


def test_two_workers_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="a name of its own"):
        Provider.create(tmp_path / "p", _script(TOTALS), ("a", "a"))


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    Provider.create(tmp_path / "p", _script(TOTALS), ("a",))
    with pytest.raises(FederationError, match="not empty"):
        Provider.create(tmp_path / "p", _script(TOTALS), ("a",))
