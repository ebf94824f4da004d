"""What an edge sends another one that comes back: nothing before it knows all that the other one wants."""

from __future__ import annotations

import json
from pathlib import Path

from tests.delivery.numbers import publish
from tests.support.processes import EdgeProcess
from weft.delivery import Itinerary, Publisher, Span
from weft.delivery.edge_protocol import PARCEL, VERSION, FrameSocket, json_frame
from weft.delivery.parcel import decode
from weft.plan.subscription import Comparison, Subscription


def _route(query: str, at: int) -> Itinerary:
    subscription = Subscription("g", (("n", "n"),), ((Comparison("n", "=", at),),))
    return Itinerary(query, (subscription,), (Span("g", 0, since=0),))


def test_no_parcel_comes_before_all_queries_were_named(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p")
    publish(publisher, 0, [], _route("one", 1), _route("two", 2))
    edge = EdgeProcess(str(tmp_path / "log"), tmp_path / "edge")
    edge.start()
    link = FrameSocket("127.0.0.1", edge.port)
    try:
        link.send(json_frame(weft=VERSION, role="link", after=0, token=None))
        assert link.receive_json() == {"ok": 0}
        link.send(json_frame(add="one"))
        assert link.receive_json()["added"] == "one"
        publish(publisher, 1, [1, 2])
        # Time enough to send the parcel, if it were sent; it says how far it is, since it may not.
        assert link.receive_json() == {"through": 0}
        link.send(json_frame(add="two"))
        added = link.receive_json()
        while "added" not in added:
            added = link.receive_json()
        assert added["added"] == "two"
        publish(publisher, 2, [1, 2])
        link.send(json_frame(ready=""))
        rows: dict[int, list[int]] = {}
        while 2 not in rows:
            kind, content = link.receive()
            if kind == PARCEL:
                parcel = decode(content)
                rows[parcel.cycle] = sorted(n for each in parcel.messages for n in each.rows["n"].to_pylist())
            else:
                assert "through" in json.loads(content)
        # The edge has the second query's rows since it asked for them, perhaps after cycle 1; the first one's always.
        assert 1 in rows[1]
        assert rows[2] == [1, 2]
    finally:
        link.close()
        edge.stop()
