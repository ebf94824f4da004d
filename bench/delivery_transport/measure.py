"""1,000 members behind four edges, each a process of its own, on a real NATS server.

What crosses the links from the engine is what the edges received from NATS, by the client's own count. One stream for
each query would send each member its answers as messages of their own: as many bytes as these are, encoded and, where
they are large enough, compressed the same way.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench import report
from bench.delivery_transport.users import Users
from bench.delivery_transport.workload import members, rows
from tests.support.processes import EdgeProcess, NatsServer
from weft.delivery import Publisher
from weft.delivery.delivery_log import read_parcel
from weft.delivery.members import Members
from weft.delivery.nats_broker import NatsBroker
from weft.delivery.parcel import stream_of

DEFINITIONS = {
    "nats_bytes_saved_ratio_1000": "bytes that one stream for each of 1,000 queries would send to four edges, over "
    "those that the edges received from NATS",
    "edge_rows_per_second": "rows of groups that an edge took in and served to its users, per second of wall time, "
    "with all edges, NATS, the publisher and all users on this machine's cores",
    "latency_p99_ms": "milliseconds from a cycle's writing to its answers at a user, the slowest of a hundred",
}

_EDGES = 4
_PATIENCE = 300.0


@dataclass(frozen=True)
class Measured:
    """Ratios for the last line, and what they were made of."""

    ratios: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


def measure(quick: bool) -> Measured:
    """Run it; a quick one has fewer cycles, and as many members."""
    calm, hasty, count = (6, 6, 1000) if quick else (30, 30, 2000)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        return _measure(Path(folder), stack, calm, hasty, count)


def _measure(folder: Path, stack: ExitStack, calm: int, hasty: int, count: int) -> Measured:
    routes = members(1000)
    server = NatsServer(folder / "store")
    server.start()
    stack.callback(server.stop)
    publisher = Publisher(folder / "log", "bench", broker=NatsBroker(server.url, "bench"))
    stack.callback(publisher.close)
    publisher.write(0, [], routes)
    publisher.committed(0)
    assert publisher.wait_until_forwarded(_PATIENCE)
    edges = [EdgeProcess(f"{server.url}/bench", folder / f"edge{number}") for number in range(_EDGES)]
    for edge in edges:
        edge.start()
        stack.callback(edge.stop)
    report.progress(f"{_EDGES} edges are there; {len(routes):,} users come")
    users = Users([(route.query, edges[at % _EDGES].port) for at, route in enumerate(routes)])
    stack.callback(users.close)
    users.wait_until_ready(_PATIENCE)

    all_members = Members(routes)

    def cycle(number: int) -> None:
        publisher.write(number, rows(number, count))
        publisher.committed(number)

    def wait_for_all(number: int) -> None:
        parcel = read_parcel(folder / "log", number)
        assert parcel is not None
        users.wait_for(number, {batch.query for batch in all_members.batches(parcel)}, _PATIENCE)

    before = [edge.status()["received_from_broker"] for edge in edges]
    cpu = report.cpu_seconds()
    for number in range(1, calm + 1):
        cycle(number)
        wait_for_all(number)
    cpu = report.cpu_seconds() - cpu
    received = sum(edge.status()["received_from_broker"] for edge in edges) - sum(before)
    late = [milliseconds for number, milliseconds in users.late if number > 1]
    report.progress("latency is measured; now as fast as it goes")
    taken = [edge.status()["received"]["rows"] for edge in edges]
    started = time.perf_counter()
    for number in range(calm + 1, calm + hasty + 1):
        cycle(number)
    wait_for_all(calm + hasty)
    seconds = time.perf_counter() - started
    rates = [(edge.status()["received"]["rows"] - then) / seconds for edge, then in zip(edges, taken, strict=True)]
    messages, answers = _one_stream_each(folder / "log", all_members, calm)
    ratios = {
        "nats_bytes_saved_ratio_1000": messages / received,
        "edge_rows_per_second": float(np.mean(rates)),
        "latency_p99_ms": float(np.percentile(late, 99)),
    }
    details = {
        "members": len(routes),
        "edges": _EDGES,
        "cycles": calm,
        "rows_per_cycle": 2 * count,
        "answers": answers,
        "bytes_received_from_nats": received,
        "bytes_one_stream_each": messages,
        "latency_p50_ms": float(np.percentile(late, 50)),
        "cpu_seconds_per_calm_cycle": cpu / calm,
        "answers_per_second_in_haste": answers / calm * hasty / seconds,
    }
    return Measured(ratios, details)


def _one_stream_each(log: Path, all_members: Members, cycles: int) -> tuple[int, int]:
    """What members' own streams would carry: bytes and rows."""
    messages = answers = 0
    for number in range(1, cycles + 1):
        parcel = read_parcel(log, number)
        assert parcel is not None
        for batch in all_members.batches(parcel):
            messages += len(stream_of(batch.table))
            answers += batch.table.num_rows
    return messages, answers
