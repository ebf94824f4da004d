"""A federation in one process: all roles of three providers and a feed, on a broker in memory, stepped by hand.

What users are given is compared with what the oracle says of the whole streams, entry by entry of the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.oracle_engine import Crash, OracleEngine
from tests.federation.live.oracle_of_log import answers_of_log
from weft.delivery.delivery_log import cycles, delivery_directory, read_parcel
from weft.federation.distribution.topology import topology_from
from weft.federation.live.coordination import Coordination
from weft.federation.live.messages import COORDINATOR, SiteMessage, entry_of, message_bytes, message_of, reply_mailbox
from weft.federation.live.provider import Provider
from weft.federation.live.provider_engine import EngineMaker
from weft.federation.live.result_inbox import ResultInbox
from weft.federation.live.source_agent import SourceAgent

TOPOLOGY = topology_from(
    {
        "sites": [
            {"name": "n1", "capability": 1},
            {"name": "n2", "capability": 1},
            {"name": "n3", "capability": 1},
            {"name": "feed", "source": True},
            {"name": "tape", "source": True},
        ],
        "links": [
            {"between": ["n1", "n2"], "milliseconds": 5},
            {"between": ["n2", "n3"], "milliseconds": 4},
            {"between": ["feed", "n1"], "milliseconds": 2},
            {"between": ["tape", "n3"], "milliseconds": 3},
        ],
    }
)

PROVIDERS = ("n1", "n2", "n3")
COLUMNS = {
    "trades": {"n": pa.int64(), "sym": pa.string(), "price": pa.int64(), "qty": pa.int64()},
    "quotes": {"n": pa.int64(), "sym": pa.string(), "bid": pa.int64()},
}
OWNERS = {"trades": "feed", "quotes": "tape"}


def stream_statement(name: str, folder: Path, delay: int = 5) -> str:
    types = {column: "STRING" if kind == pa.string() else "BIGINT" for column, kind in COLUMNS[name].items()}
    listed = ", ".join(f"{column} {type_}" for column, type_ in types.items())
    return (
        f"CREATE STREAM {name} ({listed}) WATERMARK FOR n AS n - {delay} USING parquet OPTIONS (path '{folder / name}')"
    )


def write_batch(folder: Path, stream: str, number: int, rows: list[tuple[Any, ...]]) -> None:
    """Let a file appear, whole."""
    target = folder / stream
    target.mkdir(parents=True, exist_ok=True)
    columns = COLUMNS[stream]
    table = pa.table(
        {name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(columns.items())}
    )
    draft = target / f".{number}.draft"
    pq.write_table(table, draft)
    os.utime(draft, ns=(number * 10**9 + 10**18, number * 10**9 + 10**18))
    draft.rename(target / f"{number:05d}.parquet")


class SmallFederation:
    """All processes of a federation. `crash_at` makes a provider die at a step of its engine."""

    def __init__(self, directory: Path, largest: int = 1 << 20, engine: EngineMaker | None = None) -> None:
        self.directory = directory
        self.broker = MemoryBroker()
        self._largest = largest
        self._make_engine = engine
        self.now = 0.0
        self.crash_at: dict[str, str] = {}
        self.requests = 0
        self.batches = dict.fromkeys(COLUMNS, 0)
        self.sources = {site: self._source(site) for site in ("feed", "tape")}
        self.coordination = self._coordination()
        self.providers: dict[str, Provider] = {}
        self.homes = {site: ResultInbox(site, directory / site, self.transport()) for site in PROVIDERS}
        for site in PROVIDERS:
            self.start(site)
        for name, site in OWNERS.items():
            self.ask("statement", at=site, text=stream_statement(name, directory / "incoming"))

    def transport(self) -> MemoryTransport:
        return MemoryTransport(self.broker, self._largest)

    # --- processes -----------------------------------------------------------------------------------------------

    def _source(self, site: str) -> SourceAgent:
        return SourceAgent(site, self.directory / site, self.transport())

    def _coordination(self) -> Coordination:
        return Coordination(
            TOPOLOGY,
            self.directory / "coordinator",
            self.transport(),
            patience=30.0,
            release_every=3,
            clock=lambda: self.now,
        )

    def start(self, site: str) -> None:
        """Start a provider, as `weft provider` does."""
        while True:
            rejoin = partial(self._join, site, is_new=False)
            make = self._engine(site)
            provider = Provider(site, self.directory / site, self.transport(), make, idle=self._serve, rejoin=rejoin)
            self._join(site, is_new=provider.is_new)
            try:
                provider.start_over()
            except Crash:
                continue
            self.providers[site] = provider
            return

    def _join(self, site: str, *, is_new: bool) -> None:
        self.requests += 1
        self._tell(SiteMessage("join", {"id": f"join-{self.requests}", "site": site, "new": is_new}))
        self._coordinate()

    def kill(self, site: str) -> None:
        """A provider is gone, and what it has on disk stays."""
        del self.providers[site]

    def restart_coordinator(self) -> None:
        self.coordination.close()
        self.coordination = self._coordination()

    def restart_source(self, site: str) -> None:
        self.sources[site].close()
        self.sources[site] = self._source(site)

    def restart_home(self, site: str) -> None:
        self.homes[site].close()
        self.homes[site] = ResultInbox(site, self.directory / site, self.transport())

    def lose_rows(self, is_lost: Callable[[], bool] = lambda: True) -> None:
        """Let the broker lose rows on their way to providers: all messages, or those of which a draw says so."""
        self.broker.lost |= {
            number
            for number, (mailbox, _) in enumerate(self.broker.messages, 1)
            if mailbox.startswith("rows.") and is_lost()
        }

    def bury(self, site: str) -> None:
        """Let the coordinator find out that a provider is dead, or believe so."""
        self._coordinate()
        self.now += 31
        for other in set(self.providers) - {site}:
            self._tell(SiteMessage("alive", {"site": other}))
        self._coordinate()
        assert site not in self.coordination.placing.present

    def _engine(self, site: str) -> EngineMaker:
        if self._make_engine is not None:
            return self._make_engine

        def at(step: str) -> None:
            if self.crash_at.get(site) == step:
                del self.crash_at[site]
                raise Crash

        return lambda directory, answers: OracleEngine(directory, answers, at)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _tell(self, message: SiteMessage) -> None:
        self.transport().put(COORDINATOR, f"message-{len(self.broker.messages)}", message_bytes(message))

    def _coordinate(self) -> None:
        while self.coordination.step():
            pass

    def _serve(self) -> None:
        for each in self.sources.values():
            each.step()

    def ask(self, kind: str, **fields: Any) -> SiteMessage:
        """Ask the coordinator, and have it answer."""
        self.requests += 1
        identity = f"request-{self.requests}"
        self._tell(SiteMessage(kind, {"id": identity, **fields}))
        self._coordinate()
        found = self.transport().take(reply_mailbox(identity), 0)
        assert found is not None
        return message_of(found[1])

    def execute(self, site: str, text: str) -> SiteMessage:
        answer = self.ask("statement", at=site, text=text)
        assert answer["ok"], answer["error"]
        return answer

    def publish(self, stream: str, rows: list[tuple[Any, ...]]) -> None:
        """A batch comes to a stream."""
        write_batch(self.directory / "incoming", stream, self.batches[stream], rows)
        self.batches[stream] += 1
        self.sources[OWNERS[stream]].step()

    def work(self, *sites: str) -> None:
        """Let some providers do all there is to do, or all of them; one that crashes starts again."""
        for site in sites or tuple(self.providers):
            while site in self.providers:
                try:
                    worked = self.providers[site].step()
                except Crash:
                    self.start(site)
                    continue
                if not worked:
                    break
        self._coordinate()

    def settle(self) -> None:
        """Let everybody do all there is to do."""
        for _ in range(3):
            for each in self.sources.values():
                while each.step():
                    pass
            self.work()
            for home in self.homes.values():
                while home.step():
                    pass

    # --- answers -------------------------------------------------------------------------------------------------

    def delivered(self) -> dict[str, list[tuple[Any, ...]]]:
        """By query what users were given, in order: batches, each as a sorted list of rows."""
        found: dict[str, list[Any]] = {}
        for site in PROVIDERS:
            folder = delivery_directory(self.directory / site)
            for cycle in cycles(folder):
                parcel = read_parcel(folder, cycle)
                assert parcel is not None
                for message in parcel.messages:
                    rows = [tuple(row.values()) for row in message.rows.to_pylist()]
                    found.setdefault(message.group, []).append(sorted(rows, key=repr))
        return found

    def expected(self) -> dict[str, list[list[tuple[Any, ...]]]]:
        """The same from the oracle, which is given the log: statements and whole batches, in its order."""
        entries = ((place, entry_of(data)) for place, data in enumerate(self.broker.log, 1))
        found = answers_of_log(entries, self.directory / "incoming")
        return {name: [sorted(rows, key=repr) for rows in batches] for name, batches in found.items()}
