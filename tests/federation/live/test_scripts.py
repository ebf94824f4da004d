"""Scripts that are registered in a federation are carried out whole or not at all; and what sites say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.small_federation import SmallFederation, stream_statement
from weft.cli import app
from weft.federation import FederationError
from weft.federation.live.coordination import Coordination
from weft.federation.live.coordinator_requests import asked
from weft.federation.live.messages import Entry, SiteMessage
from weft.federation.live.site import SiteProcess
from weft.loom.registration import Registration

GOOD = """
CREATE VIEW high AS SELECT n, price FROM trades WHERE price > 3;
CREATE CONTINUOUS QUERY a AS SELECT n FROM high;
CREATE CONTINUOUS QUERY b AS SELECT n, sym FROM quotes;
"""


@pytest.fixture
def federation(tmp_path: Path) -> SmallFederation:
    return SmallFederation(tmp_path)


def outcomes(answer: SiteMessage) -> list[str]:
    return [each.message for each in Registration.from_text(answer["registration"]).outcomes]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("CREATE CONTINUOUS QUERY c AS SELECT m FROM trades; CREATE CONTINUOUS QUERY d AS SELECT k FROM trades", "'k'"),
        ("CREATE CONTINUOUS QUERY c INTO parquet OPTIONS (path 'y') AS SELECT n FROM trades", "writes INTO parquet"),
        ("SET sharing = 'off'", "nothing of the script was carried out"),
        ("DROP CONTINUOUS QUERY nothing", "'nothing'"),
    ],
)
def test_a_script_with_a_bad_statement_changes_nothing(federation: SmallFederation, bad: str, said: str) -> None:
    before = len(federation.broker.log)
    answer = federation.ask("statement", at="n1", text=GOOD + bad)
    assert not answer["ok"]
    assert said in answer["error"]
    assert len(federation.broker.log) == before


def test_notes_on_good_statements_are_passed_on(federation: SmallFederation) -> None:
    answer = federation.execute("n1", "CREATE CONTINUOUS QUERY a AS SELECT n FROM trades ORDER BY n")
    (note,) = Registration.from_text(answer["registration"]).notes
    assert "ORDER BY" in note.message


def test_a_script_that_is_repeated_changes_nothing(federation: SmallFederation) -> None:
    assert len(outcomes(federation.execute("n1", GOOD))) == 3
    before = len(federation.broker.log)
    again = outcomes(federation.execute("n1", GOOD.replace("SELECT n FROM high", "SELECT  n  FROM high")))
    assert again == ["high is registered already", "a is registered already", "b is registered already"]
    assert len(federation.broker.log) == before
    elsewhere = federation.ask("statement", at="n2", text=GOOD)
    assert "query 'a' is registered already, and its answers go to n1" in elsewhere["error"]


def test_a_script_that_a_coordinator_had_begun_is_carried_out_to_its_end(
    federation: SmallFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, appended = Coordination._append, []

    def dying(self: Coordination, entry: Entry) -> None:
        append(self, entry)
        appended.append(entry)
        if len(appended) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Coordination, "_append", dying)
    with pytest.raises(KeyboardInterrupt):
        federation.execute("n1", GOOD)
    monkeypatch.undo()
    federation.restart_coordinator()
    federation.settle()
    assert {each["name"] for each in federation.ask("status")["status"]["queries"]} == {"a", "b"}


def test_a_stream_is_dropped_when_nothing_reads_it_and_its_name_is_not_used_again(federation: SmallFederation) -> None:
    folder = federation.directory / "incoming"
    other = stream_statement("trades", folder, delay=9)
    assert "give this stream another name" in federation.ask("statement", at="feed", text=other)["error"]
    federation.execute("n1", "CREATE CONTINUOUS QUERY a AS SELECT n FROM trades")
    federation.publish("trades", [(1, "A", 5, 5)])
    assert not federation.ask("statement", at="feed", text="DROP STREAM trades")["ok"]
    federation.execute("n1", "DROP CONTINUOUS QUERY a")
    assert outcomes(federation.execute("feed", "DROP STREAM trades")) == ["stream trades dropped"]
    federation.publish("trades", [(2, "A", 5, 5)])
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert [each["name"] for each in federation.ask("status")["status"]["streams"]] == ["quotes"]
    assert "was dropped from this federation" in federation.ask("statement", at="feed", text=other)["error"]
    assert not federation.ask("statement", at="n1", text="CREATE CONTINUOUS QUERY b AS SELECT n FROM trades")["ok"]
    federation.execute("feed", stream_statement("quotes", folder))


# --- sites ---------------------------------------------------------------------------------------------------------


def states(federation: SmallFederation) -> dict[str, str]:
    return {each["name"]: each["state"] for each in federation.ask("status")["status"]["sites"]}


def test_a_site_that_stops_says_why_and_one_that_is_silent_is_shown(federation: SmallFederation) -> None:
    assert states(federation) == dict.fromkeys(("n1", "n2", "n3"), "runs")
    federation._join("feed", is_new=False)
    broken = federation.directory / "incoming" / "trades" / "00000.parquet"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no parquet")
    site = SiteProcess("feed", federation.directory / "feed", federation.transport, None, heartbeat=60.0)
    site._join = lambda **_: None  # type: ignore[method-assign]
    with pytest.raises(FederationError, match=r"00000.parquet is no batch of stream 'trades': .* start this"):
        site.run()
    assert "is no batch of stream 'trades'" in states(federation)["feed"]
    federation.now += 95
    federation._tell(SiteMessage("alive", {"site": "n1"}))
    federation._tell(SiteMessage("alive", {"site": "feed"}))
    federation.coordination._patience = 1e9
    while federation.coordination.step():
        pass
    federation.coordination._patience = 30.0
    assert states(federation) == {"n1": "runs", "n2": "not heard for 95 s", "n3": "not heard for 95 s", "feed": "runs"}


def test_a_request_to_an_absent_coordinator_fails_soon() -> None:
    transport = MemoryTransport(MemoryBroker())
    with pytest.raises(FederationError, match=r"has not answered for 0 s\. Is it running\? Start it with"):
        asked(transport, "status", timeout=0.1)
    with pytest.raises(FederationError, match=r"for 0 s; what was asked waits for it, and will be done"):
        asked(transport, "statement", timeout=0.1)


def test_the_commands_of_a_project_work_in_the_directory_of_a_provider(tmp_path: Path) -> None:
    """Nothing runs: it is what the provider has on its disk that is read."""
    from weft.federation.live.site_directory import SiteMembership, write_membership
    from weft.loom import Loom

    site = tmp_path / "n1"
    write_membership(site, SiteMembership("n1", "nats://127.0.0.1:9/market"))
    assert "runs no queries" in run("queries", "--project", str(site), code=2)
    (site / "engines" / "3").mkdir(parents=True)
    (site / "engines" / "000000000003.current").touch()
    with Loom.open(site / "engines" / "3" / "engine") as loom:
        loom.execute(stream_statement("trades", tmp_path))
        loom.execute("CREATE CONTINUOUS QUERY hot AS SELECT n FROM trades")
    assert "hot" in run("queries", "--project", str(site))
    assert "hot" in run("explain", "--project", str(site))
    assert "hot" in run("status", "--project", str(site))
    assert "cannot be reached" in run("register", "-", "--project", str(site), code=2)
    assert "cannot be reached" in run("federation", "status", "--project", str(site), code=2)
    assert "cannot be reached" in run("drop", "hot", "--project", str(site), code=2)


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), input="CREATE VIEW v AS SELECT n FROM trades")
    assert result.exit_code == code, result.output
    return result.output
