"""What an edge answers to those who may not be served, and to those who do not speak its protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.numbers import publish
from weft.delivery import Itinerary, Limits, LogError, Publisher, Span
from weft.delivery.access import ACCESS, grant
from weft.delivery.edge import Edge, EdgeSettings
from weft.delivery.edge_protocol import JSON, VERSION, frame, json_frame, read_frame
from weft.delivery.relay import Relay, feed_from
from weft.plan.subscription import Subscription

_USER: dict[str, Any] = {"weft": VERSION, "role": "user", "query": "hot"}
_LINK = {"weft": VERSION, "role": "link", "after": None}


def _project(directory: Path) -> Path:
    """A delivery directory with one cycle of a query."""
    publisher = Publisher(directory, "p")
    publish(publisher, 0, [1], Itinerary("hot", (Subscription("g", (("n", "n"),)),), (Span("g", 0, since=0),)))
    publisher.close()
    return directory


@contextlib.asynccontextmanager
async def _edge(settings: EdgeSettings, said: list[str] | None = None) -> AsyncIterator[int]:
    """An edge in this process. It fails the test if one of its tasks ends in an exception that nothing handles."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    edge = Edge(settings, say=(said if said is not None else []).append)
    try:
        yield await edge.start()
    finally:
        await edge.close()
    assert unhandled == []


async def _answers(port: int, *frames: bytes) -> list[dict[str, Any]]:
    """What an edge answers, up to the first thing that is more than silence, or until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"".join(frames))
        found: list[dict[str, Any]] = []
        with contextlib.suppress(ConnectionError):
            while not found or "error" not in found[-1]:
                kind, content = await asyncio.wait_for(read_frame(reader), 30)
                found.append(json.loads(content) if kind == JSON else {"frame": kind})
                if kind != JSON or found[-1].keys() & {"end", "through", "added"}:
                    break
        return found
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("frames", "sentence"),
    [
        ([frame(JSON, b"[" * 30_000)], "the request is refused: Expected `object`"),
        ([frame(JSON, b"\xff\xfe")], "the request is refused: JSON is malformed"),
        ([json_frame(weft=1)], "speaks version 2"),
        ([frame(JSON, b"[1]")], "Expected `object`, got `array`"),
        ([json_frame(weft=VERSION, role=["user"])], "Expected `str` - at `$.role`"),
        ([json_frame(weft=VERSION, role="user")], "missing required field `query`"),
        ([json_frame(**{**_USER, "query": {"a": 1}})], "Expected `str`, got `object` - at `$.query`"),
        ([json_frame(**_USER, token=7)], "Expected `str | null`, got `int` - at `$.token`"),
        ([frame(JSON, b'{"weft":2,"role":"user","query":"hot","token":"\\ud800"}')], "the request is refused"),
        ([json_frame(**_USER, last=-5)], "last is a number of answers, and cannot be negative"),
        ([json_frame(**_USER, last=1.5)], "Expected `int | null`"),
        ([json_frame(**_USER, last=True)], "Expected `int | null`"),
        ([json_frame(**_USER, after=1 << 63)], "Expected `int` <= 9223372036854775807"),
        ([json_frame(**_USER, last=1, after=3)], "give one of"),
        ([json_frame(**{**_LINK, "after": "x"})], "Expected `int | null`, got `str`"),
        ([json_frame(**_LINK), json_frame(subtract="hot")], "unknown field `subtract`"),
        ([json_frame(**_LINK), json_frame(add=5)], "Expected `str | null`, got `int` - at `$.add`"),
        ([json_frame(**_LINK), frame(JSON, b"[" * 30_000)], "the request is refused: Expected `object`"),
    ],
)
def test_a_malformed_request_is_refused_with_a_sentence(tmp_path: Path, frames: list[bytes], sentence: str) -> None:
    async def scenario() -> None:
        async with _edge(EdgeSettings(str(_project(tmp_path / "log")), tmp_path / "edge")) as port:
            assert sentence in (await _answers(port, *frames))[-1]["error"]
            assert (await _answers(port, b"GET / HTTP/1.1\r\n\r\n")) == []
            assert (await _answers(port, json_frame(**_USER, after=-1)))[0] == {"ok": -1}

    asyncio.run(scenario())


def test_a_named_file_of_grants_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    settings = EdgeSettings(str(_project(tmp_path / "log")), tmp_path / "edge", access=tmp_path / "nothing.json")
    with pytest.raises(LogError, match="nobody is let in"):
        Edge(settings)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_file_of_grants_that_vanishes_closes_the_door(tmp_path: Path, is_named: bool) -> None:
    log = _project(tmp_path / "log")
    file = log / ACCESS

    async def scenario() -> None:
        token = grant(log, "ann", ["hot"])
        settings = EdgeSettings(str(log), tmp_path / "edge", access=file if is_named else None, token=token)
        said: list[str] = []
        asking = [json_frame(**_USER, after=-1)]
        allowed = [json_frame(**_USER, after=-1, token=token)]
        link = [json_frame(**_LINK, token=token), json_frame(add="hot")]
        async with _edge(settings, said) as port:
            assert "a token is needed" in (await _answers(port, *asking))[-1]["error"]
            assert (await _answers(port, *allowed))[0] == {"ok": -1}
            assert (await _answers(port, *link))[-1].get("refused") is None
            grants = file.read_bytes()
            file.unlink()
            for frames in (asking, allowed):
                assert "nobody is let in" in (await _answers(port, *frames))[-1]["error"]
            assert "nobody is let in" in (await _answers(port, *link))[-1]["refused"]
            file.write_bytes(grants)
            assert (await _answers(port, *allowed))[0] == {"ok": -1}
            assert [each for each in said if "nobody is let in" in each] == said[:1]
            assert len(said) == 2

    asyncio.run(scenario())


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_edge_goes_on_when_a_user_waits_no_more_for_a_query(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p")
    publish(publisher, 0, [1], Itinerary("hot", (Subscription("g", (("n", "n"),)),), (Span("g", 0, since=0),)))
    relay = Relay(tmp_path / "edge", feed_from(str(tmp_path / "log"), None), Limits())
    try:
        relay.cover("cold").cancel()
        assert relay.cover("hot").result(30).route.query == "hot"
    finally:
        relay.close()
        publisher.close()
