"""`weft tail`, `weft token` and `weft edge`, as users call them."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.support.processes import EdgeProcess
from weft.cli import app
from weft.delivery import Itinerary, Limits, Message, Publisher, Span
from weft.delivery.delivery_log import delivery_directory
from weft.loom import Loom
from weft.plan.subscription import Comparison, Subscription


def _weft(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def _route(query: str) -> Itinerary:
    subscription = Subscription("g", (("number", "n"), ("name", "s")), ((Comparison("n", ">", 1),),))
    return Itinerary(query, (subscription,), (Span("g", 0, since=0),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that has delivered some answers."""
    Loom.open(tmp_path).close()
    publisher = Publisher(delivery_directory(tmp_path), "p", limits=Limits(rows=4))
    rows = pa.table({"n": [1, 2, 3], "s": ["a", "b", None]})
    for cycle in range(2):
        publisher.write(cycle, [Message("g", 0, rows)], [_route("hot"), _route("cold")] if not cycle else [])
        publisher.committed(cycle)
    return tmp_path


def test_tail_shows_the_newest_answers_and_ends_when_it_has_enough(project: Path) -> None:
    shown = _weft("tail", "hot", "--project", project, "--last", 2, "--count", 2)
    assert (shown.exit_code, shown.output) == (0, "number=2  name=b\nnumber=3  name=NULL\n")
    as_json = _weft("tail", "hot", "--project", project, "--last", 5, "--count", 1, "--json")
    assert [json.loads(line) for line in as_json.output.splitlines()] == [{"number": 2, "name": "b"}]


def test_tail_says_what_was_let_go_of(project: Path) -> None:
    shown = _weft("tail", "hot", "--project", project, "--since", "2000-01-01", "--count", 1)
    assert "-- answers of cycles 0 to 0 were let go before they were taken\n" in shown.output
    assert "number=2  name=b\n" in shown.output


def test_tail_says_what_is_wrong(project: Path, tmp_path: Path) -> None:
    for arguments, sentence in (
        (("hit", "--project", project), "query 'hit' does not deliver its answers here; queries that do: cold, hot"),
        (("hot", "--project", project / "elsewhere"), "there is no project in"),
        (("hot", "--project", project, "--since", "soon"), "'soon' is no time"),
        (("hot", "--from", "weft://nowhere"), "write weft://host:port"),
        (("hot", "--from", "nats://127.0.0.1:9"), "names no project"),
        (("hot", "--from", f"weft://127.0.0.1:{_unused_port()}"), "cannot be reached"),
    ):
        failed = _weft("tail", *arguments)
        assert failed.exit_code == 2
        assert sentence in failed.output


def test_tokens_are_made_shown_and_revoked(project: Path) -> None:
    assert "no token is needed" in _weft("token", "--project", project).output
    assert "say what the token allows" in _weft("token", "ann", "--project", project).output
    token = _weft("token", "ann", "--project", project, "--allow", "h*").output.strip()
    assert json.loads(_weft("token", "--project", project, "--json").output) == [{"name": "ann", "queries": ["h*"]}]
    assert _weft("tail", "hot", "--project", project, "--last", 1, "--count", 1, "--token", token).exit_code == 0
    assert "a token is needed" in _weft("tail", "hot", "--project", project).output
    assert "does not allow query 'cold'" in _weft("tail", "cold", "--project", project, "--token", token).output
    assert _weft("token", "ann", "--project", project, "--revoke").exit_code == 0
    assert _weft("tail", "hot", "--project", project, "--token", token).exit_code == 2


def test_an_edge_serves_who_has_a_token(project: Path, tmp_path: Path) -> None:
    directory = delivery_directory(project)
    token = json.loads(_weft("token", "ann", "--project", project, "--allow", "hot", "--json").output)["token"]
    edge = EdgeProcess(str(directory), tmp_path / "edge", "--access", str(directory / "access.json"), "--token", token)
    edge.start()
    try:
        shown = _weft("tail", "hot", "--from", edge.address, "--last", 1, "--count", 1, "--token", token)
        assert (shown.exit_code, shown.output) == (0, "number=3  name=NULL\n")
        assert "a token is needed" in _weft("tail", "hot", "--from", edge.address).output
        assert "does not allow" in _weft("tail", "cold", "--from", edge.address, "--token", token).output
        with socket.create_connection(("127.0.0.1", edge.port), 5) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert edge.status()["queries"] == 1
    finally:
        edge.stop()


def test_an_edge_says_what_is_wrong(tmp_path: Path) -> None:
    failed = _weft("edge", tmp_path / "nothing", "--state", tmp_path / "state")
    assert failed.exit_code == 2
    assert "is no directory; give that of a project's delivery, nats://… or weft://…" in failed.output


def test_an_edge_does_not_start_without_the_grants_that_it_was_given(project: Path, tmp_path: Path) -> None:
    missing = tmp_path / "no-such-file.json"
    failed = _weft("edge", delivery_directory(project), "--state", tmp_path / "state", "--access", missing)
    assert failed.exit_code == 2
    assert f"{missing} does not exist; nobody is let in" in failed.output


def _unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
