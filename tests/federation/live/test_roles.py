"""Engines of providers, sources, handing over and the coordinator: each by itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.oracle_engine import OracleEngine
from tests.federation.live.small_federation import SmallFederation, stream_statement, write_batch
from weft.delivery.delivery_errors import BrokerError
from weft.federation.live.ledger import FederationLedger, Stay, feeding_begins, feeding_from
from weft.federation.live.messages import (
    BatchPublished,
    Declared,
    Handover,
    PublishedPart,
    QueriesMoved,
    QueryCreated,
    QueryDropped,
    SiteJoined,
    SiteLeft,
    SiteMessage,
    entry_bytes,
    entry_of,
    message_bytes,
    message_of,
    small_enough,
)
from weft.federation.live.provider_engine import ProviderEngine
from weft.federation.live.site_directory import RoleStore
from weft.federation.live.source_agent import BATCHES_TABLE, BatchFiles
from weft.loom.registration import Registration

ENTRIES = (
    SiteJoined("j", "n1"),
    Declared("d", "feed", "CREATE …"),
    QueryCreated("c", "q", "n1", "n2", "CREATE …"),
    QueryDropped("e", "q"),
    QueriesMoved("m", (Handover("q", 3, "n1", "n2"),)),
    SiteLeft("n2", (Handover("q", 3, "n2", "n1", 7),)),
    BatchPublished("trades", 3, 17, 5, (PublishedPart(("n1", "n2"), (4, 5), 3),)),
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_entries_are_read_as_they_were_written(entry: BatchPublished) -> None:
    assert entry_of(entry_bytes(entry)) == entry


def test_messages_are_read_as_they_were_written_and_large_ones_are_divided() -> None:
    draw = random.Random(1)
    rows = pa.table({"x": pa.array(draw.randbytes(20) for _ in range(5000)), "s": ["ä\n"] * 5000})
    message = message_of(message_bytes(SiteMessage("rows", {"number": 3, "text": "ä\n"}, rows)))
    assert (message.kind, message["number"], message["text"]) == ("rows", 3, "ä\n")
    assert message.rows == rows
    pieces = list(small_enough(rows, MemoryTransport(MemoryBroker(), largest=60_000)))
    assert len(pieces) > 1
    assert pa.concat_tables(pieces) == rows


# --- sources -------------------------------------------------------------------------------------------------------


def ledger_with_streams(folder: Path) -> FederationLedger:
    ledger = FederationLedger()
    for place, name in enumerate(("trades", "quotes"), 1):
        ledger.apply(place, Declared(str(place), "feed", stream_statement(name, folder)))
    return ledger


def test_files_become_numbered_batches_and_stay_until_deleted(tmp_path: Path) -> None:
    stream = ledger_with_streams(tmp_path).streams["trades"].stream
    write_batch(tmp_path, "trades", 0, [(3, "A", 1, 1), (None, "B", 1, 1), (2**62 + 1, "C", 1, 1)])
    store = RoleStore(tmp_path / "db", [BATCHES_TABLE])
    files = BatchFiles(stream, tmp_path / "mine", store)
    assert files.take() == 0
    assert files.take() is None
    # What has no clock, or an impossible one, is set aside by the owner: no provider sees it.
    assert files.rows(0)["sym"].to_pylist() == ["A"]
    write_batch(tmp_path, "trades", 1, [(1, "A", 1, 1)])
    again = BatchFiles(stream, tmp_path / "mine", store)
    assert again.take() == 1
    # A late batch does not turn the stream's clock back.
    assert (again.clock(0), again.clock(1)) == (3, 3)
    again.delete(1)
    assert again.rows(0) is None
    assert again.rows(1).num_rows == 1


# --- handing over --------------------------------------------------------------------------------------------------


def ledger_at(folder: Path, text: str) -> FederationLedger:
    """Two streams, a query at place 3, and batches of trades at 4, 5, … whose clocks go 10, 20, … 80."""
    ledger = ledger_with_streams(folder)
    ledger.apply(3, QueryCreated("c", "q", "n1", "n1", f"CREATE CONTINUOUS QUERY q AS {text}"))
    for number in range(8):
        ledger.apply(4 + 2 * number, BatchPublished("trades", number, 10 * (number + 1), 1))
        ledger.apply(5 + 2 * number, BatchPublished("quotes", number, 10 * (number + 1), 1))
    return ledger


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        # Behind place 14 the clock is 60 and the watermark 55: [40, 60) is the oldest open window. 40 came at place 10.
        ("SELECT SUM(qty) AS s FROM trades [ROWS 20 SLIDE 10]", 14, 9),
        ("SELECT SUM(qty) AS s FROM trades [ROWS 20 SLIDE 10]", 4, 3),
        ("SELECT n FROM trades WHERE qty > 3", 14, 14),
        ("SELECT sym, COUNT(*) AS c FROM trades GROUP BY sym", 14, 3),
        ("SELECT COUNT(*) AS c FROM trades [ROWS 20 SLIDE 10] EMIT EMPTY", 14, 3),
        # Quotes are at 50, so their watermark is 45: a row of 45 meets those after 45 − 10 − 1 = 34; 40 came at 10.
        ("SELECT t.n FROM trades t [ROWS 10], quotes q [ROWS 10] WHERE t.sym = q.sym", 14, 9),
        ("SELECT DISTINCT sym FROM trades RETAIN 15", 14, 3),
    ],
)
def test_feeding_begins_where_answers_rest_on_no_earlier_row(
    tmp_path: Path, text: str, after: int, expected: int
) -> None:
    ledger = ledger_at(tmp_path, text)
    assert feeding_from(ledger, ledger.query("q"), after) == expected


def test_queries_that_read_one_another_are_fed_from_their_birth(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, "SELECT SUM(qty) AS s FROM trades [ROWS 20 SLIDE 10]")
    assert feeding_begins(ledger, {3: 14}) == {3: 9}
    text = "CREATE CONTINUOUS QUERY above AS SELECT MAX(s) AS m FROM q [ROWS 20 SLIDE 20]"
    ledger.apply(20, QueryCreated("d", "above", "n1", "n1", text))
    assert feeding_begins(ledger, {3: 20, 20: 20}) == {3: 3, 20: 20}
    assert [each.name for each in ledger.family("q")] == ["q", "above"]


def test_a_provider_that_dies_before_it_has_handed_over_is_made_good_for(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, "SELECT n FROM trades")
    ledger.apply(20, QueriesMoved("m", (Handover("q", 3, "n1", "n2"),)))
    assert ledger.query("q").stays == (Stay("n1", 3, 3, 20), Stay("n2", 20, 20))
    # n1 has answered up to place 9 only, and the query is with n2 by now.
    assert [(stay.provider, reached) for stay, reached in ledger.query("q").unfinished({"n1": 9, "n2": 20})] == [
        ("n1", 9),
        ("n2", 20),
    ]
    ledger.apply(21, SiteLeft("n1", (Handover("q", 3, "n1", "n2", 9),)))
    assert ledger.query("q").stays == (Stay("n1", 3, 3, 9, broken_off=True), Stay("n2", 9, 21))
    # That n2 was at place 20 says nothing of what it was given at 21.
    assert [reached for _, reached in ledger.query("q").unfinished({"n2": 20})] == [9]
    assert [reached for _, reached in ledger.query("q").unfinished({"n2": 22})] == [22]


# --- engines of providers ------------------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_run_once(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, "SELECT n FROM trades")
    rows = pa.table({"n": [9, 10]})

    def opened() -> ProviderEngine:
        found = ProviderEngine(tmp_path / "engine", "n1", MemoryTransport(MemoryBroker()), OracleEngine)
        found.addresses["q"] = ledger.query("q"), 3
        return found

    provider_engine = opened()
    provider_engine.begin(3, ledger, [ledger.query("q")])
    for _ in range(2):
        provider_engine.take_batch(4, ledger, "trades", rows)
        assert (provider_engine.engine.applied, provider_engine.engine.last_cycle) == (4, 0)
        provider_engine = opened()
    # Without rows, it is a cycle all the same: windows close by it.
    provider_engine.take_batch(6, ledger, "trades", rows.slice(0, 0))
    assert provider_engine.engine.last_cycle == 1
    # A query that begins finds the clocks of all streams; to bring them forward takes a cycle, once.
    for _ in range(2):
        provider_engine = opened()
        provider_engine.begin(9, ledger, [])
        assert (provider_engine.engine.applied, provider_engine.engine.last_cycle) == (9, 2)


def test_a_cycle_waits_until_the_answers_before_it_are_sent(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path, "SELECT n FROM trades")
    broker = MemoryBroker()
    away = MemoryTransport(broker)
    away.put = lambda mailbox, identity, data: _raise(BrokerError("away"))  # type: ignore[method-assign]
    provider_engine = ProviderEngine(tmp_path / "engine", "n1", away, OracleEngine)
    provider_engine.addresses["q"] = ledger.query("q"), 3
    provider_engine.begin(3, ledger, [ledger.query("q")])
    provider_engine.take_batch(4, ledger, "trades", pa.table({"n": [9]}))
    with pytest.raises(BrokerError, match="away"):
        provider_engine.take_batch(6, ledger, "trades", pa.table({"n": [19]}))
    assert (provider_engine.engine.last_cycle, broker.messages) == (0, [])
    del away.put
    provider_engine.take_batch(6, ledger, "trades", pa.table({"n": [19]}))
    assert provider_engine.engine.last_cycle == 1
    assert [message_of(data)["place"] for _, data in broker.messages] == [4]


def _raise(error: Exception) -> NoReturn:
    raise error


# --- the coordinator -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> SmallFederation:
    return SmallFederation(tmp_path_factory.mktemp("federation"))


@pytest.mark.parametrize(
    ("at", "text", "said"),
    [
        ("n1", "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING parquet OPTIONS (path 'x')", "no source"),
        ("feed", "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING delta OPTIONS (path 'x')", "comes from delta"),
        ("feed", "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING parquet", "needs OPTIONS"),
        ("feed", "CREATE CONTINUOUS QUERY x AS SELECT n FROM trades", "has no users"),
        ("n1", "CREATE CONTINUOUS QUERY x INTO parquet OPTIONS (path 'y') AS SELECT n FROM trades", "INTO parquet"),
        ("n1", "CREATE CONTINUOUS QUERY x AS SELECT m FROM trades", "m"),
        ("n1", "DROP CONTINUOUS QUERY nothing", "nothing"),
        ("n1", "SHOW QUERIES", "a federation takes"),
        ("nowhere", "CREATE CONTINUOUS QUERY x AS SELECT n FROM trades", "no site 'nowhere'"),
    ],
)
def test_what_a_federation_cannot_do_is_refused_by_name(
    federation: SmallFederation, at: str, text: str, said: str
) -> None:
    answer = federation.ask("statement", at=at, text=text)
    assert not answer["ok"]
    assert said in answer["error"]


def test_queries_are_routed_explained_moved_planned_and_drawn(federation: SmallFederation) -> None:
    answer = federation.execute("n3", "CREATE CONTINUOUS QUERY near AS SELECT n FROM trades WHERE sym = 'A'")
    (why,) = (each.message for each in Registration.from_text(answer["registration"]).outcomes)
    assert why.startswith("near goes to n1")  # what it reads is more than what it answers, and comes from next to n1
    (text,) = federation.ask("explain", query="NEAR")["said"]
    assert text.startswith("near runs at n1; its user is at n3")
    assert federation.ask("move", query="near", target="n2")["ok"]
    assert "already" in federation.ask("move", query="near", target="n2")["said"][0]
    assert not federation.ask("move", query="near", target="n9")["ok"]
    status = federation.ask("status")["status"]
    assert [(each["name"], each["provider"]) for each in status["queries"]] == [("near", "n2")]
    assert {each["name"] for each in status["sites"]} == {"n1", "n2", "n3"}
    assert federation.ask("plan", apply=False)["ok"]
    assert "near" not in federation.ask("picture")["svg"]
    assert "trades" in federation.ask("picture")["svg"]


def test_the_plan_that_was_shown_is_the_one_that_is_applied(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    for number in range(12):
        federation.execute("n1", f"CREATE CONTINUOUS QUERY q{number} AS SELECT n FROM trades WHERE sym = '{number}'")
    shown = federation.ask("plan", apply=False)
    assert shown["moves"]
    assert federation.ask("plan", apply=False)["moves"] == shown["moves"]
    # What is measured changes all the time; the plan that somebody has looked at does not.
    for seconds in (0.0, 3.0):
        federation.coordination.placing.worked("n1", seconds, seconds)
    assert federation.ask("plan", apply=True)["moves"] == shown["moves"]
    at = {each["name"]: each["provider"] for each in federation.ask("status")["status"]["queries"]}
    assert {each["query"]: at[each["query"]] for each in shown["moves"]} == {
        each["query"]: each["target"] for each in shown["moves"]
    }
    shown = federation.ask("plan", apply=False)
    federation.execute("n1", "CREATE CONTINUOUS QUERY late AS SELECT n FROM quotes")
    refused = federation.ask("plan", apply=True)
    assert "since the plan was shown, so nothing was moved" in refused["error"]


def test_loads_are_those_of_a_provider_of_capability_one(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n FROM trades")
    placing = federation.coordination.placing
    federation.ask("move", query="q", target="n1")
    placing.network.capability[placing.network.number["n1"]] = 8.0
    placing.worked("n1", 10.0, 0.0)
    placing.worked("n1", 14.0, 10.0)
    assert placing.coordinator.queries.load.tolist() == [pytest.approx(3.2)]


def test_an_unknown_site_is_refused(federation: SmallFederation) -> None:
    answer = federation.ask("join", site="nowhere", new=True)
    assert not answer["ok"]
    assert "no site 'nowhere'" in answer["error"]


def test_a_coordinator_that_starts_again_knows_all_and_does_nothing_twice(federation: SmallFederation) -> None:
    federation.execute("n1", "CREATE CONTINUOUS QUERY kept AS SELECT n FROM quotes WHERE bid > 3")
    before, entries = federation.ask("status")["status"], len(federation.broker.log)
    federation.restart_coordinator()
    # It died before it had noted that it had read its mailbox: every message comes again.
    federation.coordination._store.rows("DELETE FROM mailboxes")
    while federation.coordination.step():
        pass
    after = federation.ask("status")["status"]
    assert len(federation.broker.log) == entries
    assert after["queries"] == before["queries"]


def test_derived_queries_run_where_what_they_read_runs_and_go_with_it(federation: SmallFederation) -> None:
    federation.execute(
        "n1", "CREATE CONTINUOUS QUERY base AS SELECT sym, SUM(qty) AS s FROM trades [ROWS 20 SLIDE 10] GROUP BY sym"
    )
    federation.execute("n3", "CREATE CONTINUOUS QUERY top AS SELECT MAX(s) AS m FROM base [ROWS 20 SLIDE 20]")
    ledger = federation.coordination._follower.ledger
    assert ledger.query("top").provider == ledger.query("base").provider
    federation.ask("move", query="top", target="n3")
    assert {ledger.query("top").provider, ledger.query("base").provider} == {"n3"}


def test_what_a_query_reads_is_brought_together_for_it(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    for name, provider in (("one", "n1"), ("two", "n3")):
        text = f"CREATE CONTINUOUS QUERY {name} AS SELECT n, sym, qty FROM trades WHERE qty > {len(provider)}"
        federation.execute("n1", text)
        federation.ask("move", query=name, target=provider)
    federation.publish("trades", [(1, "A", 5, 5)])
    federation.execute("n2", "CREATE CONTINUOUS QUERY both AS SELECT n FROM one UNION ALL SELECT n FROM two")
    ledger = federation.coordination._follower.ledger
    assert len({ledger.query(name).provider for name in ("one", "two", "both")}) == 1
    federation.publish("trades", [(2, "A", 5, 6), (3, "B", 5, 1)])
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert federation.delivered()[f"both@{ledger.query('both').birth}"] == [[(2,), (2,)]]
