"""The users' side of a site: answers from wherever queries run, into its delivery log, in order and once.

The log says from which batch to which each provider answers a query. An answer counts if it is from the provider that
answers for its batch, on the strength of the entry that says so, and if it is newer than the last one that was taken.
Answers of the next provider wait until the one before it has said that no more will come. A provider that left cannot
say so; but what it had answered then is in the mailbox before the entry that says so is in the log. That entry may send
the next provider back to batches that it has answered already: it answers them again, and only that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa

from weft.delivery.delivery_log import delivery_directory
from weft.delivery.itinerary import Itinerary, Span
from weft.delivery.parcel import Message, stream_of, table_of
from weft.delivery.publisher import Publisher, open_publisher
from weft.federation.live.ledger import Follower, StandingQuery, Stay
from weft.federation.live.messages import Entry, QueryCreated, SiteMessage, Transport, results_mailbox
from weft.federation.live.site_directory import Mailbox, RoleStore
from weft.plan.subscription import Subscription

_TABLES = (
    # Answers that came and are not taken yet.
    "waiting (birth INTEGER, since INTEGER, place INTEGER, provider TEXT, ordinal INTEGER, pieces INTEGER, "
    "watermark INTEGER, rows BLOB NOT NULL, PRIMARY KEY (birth, since, place, provider, ordinal))",
    # By query the batch of the last answer that was taken, and whether it was dropped and has no more.
    "taken (birth INTEGER PRIMARY KEY, place INTEGER NOT NULL, closed INTEGER NOT NULL)",
    "ended (birth INTEGER, provider TEXT, through INTEGER NOT NULL, PRIMARY KEY (birth, provider, through))",
    # What goes into the delivery log under which number; rows until they are there.
    "parcels (cycle INTEGER PRIMARY KEY, birth INTEGER NOT NULL, query TEXT NOT NULL, watermark INTEGER, rows BLOB, "
    "route TEXT)",
)


class ResultInbox:
    """Takes in the answers for the users of a site."""

    def __init__(
        self, site: str, directory: Path, transport: Transport, say: Callable[[str], None] = lambda sentence: None
    ) -> None:
        self.site = site
        self._transport = transport
        self._store = RoleStore(directory / "results.db", _TABLES)
        self._follower = Follower(transport, self._store)
        self._mailbox = Mailbox(transport, self._store, results_mailbox(site))
        #: `_lacks_routes`: the delivery log is a new one, and must be told again where answers are found.
        ((newest,),) = self._store.rows("SELECT max(cycle) FROM parcels WHERE rows IS NULL AND route IS NULL")
        self._publisher, self._lacks_routes = open_publisher(
            delivery_directory(directory),
            lambda log, begins_after: Publisher(log, site, begins_after=begins_after),
            lambda publisher: newest is None or publisher.log.newest is not None,
            newest,
            say,
        )

    def close(self) -> None:
        self._publisher.close()
        self._store.close()
        self._transport.close()

    def step(self) -> bool:
        """Take in what has come, and give users what is their turn; whether there was anything."""
        worked = self._publish()
        for place, entry in self._follower.read():
            worked = True
            self._follow(place, entry)
        if self._lacks_routes:
            self._renew_routes()
        # The mailbox is emptied after the log was read: what a provider that left had answered is then here.
        while (found := self._mailbox.next()) is not None:
            worked = True
            self._keep(*found)
        for standing in self._mine():
            worked = self._release(standing) or worked
        return self._publish() or worked

    def _mine(self) -> list[StandingQuery]:
        """The queries of users here that something may be done for."""
        waiting = {birth for (birth,) in self._store.rows("SELECT DISTINCT birth FROM waiting")}
        return [
            each
            for birth, each in self._follower.ledger.queries.items()
            if each.home == self.site and (birth in waiting or len(each.stays) > 1 or each.ended is not None)
        ]

    def _follow(self, place: int, entry: Entry) -> None:
        """Tell the delivery log of queries that begin."""
        if not isinstance(entry, QueryCreated) or entry.home != self.site:
            return
        with self._store.transaction():
            if not self._store.rows("SELECT 1 FROM taken WHERE birth = ?", place):
                self._store.rows("INSERT INTO taken VALUES (?, ?, 0)", place, place)
                self._add_route(self._follower.ledger.queries[place])

    def _keep(self, number: int, message: SiteMessage) -> None:
        with self._store.transaction():
            if message.kind == "answers":
                names = ("birth", "since", "place", "provider", "ordinal", "pieces", "watermark")
                values = [*(message[name] for name in names), stream_of(message.rows)]
                self._store.rows("INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
            elif message.kind == "ended":
                values = [message[name] for name in ("birth", "provider", "through")]
                self._store.rows("INSERT OR IGNORE INTO ended VALUES (?, ?, ?)", *values)
            self._mailbox.read(number)

    # --- in order ------------------------------------------------------------------------------------------------

    def _release(self, standing: StandingQuery) -> bool:
        """Take the answers of a query that are next."""
        ((taken, is_closed),) = self._store.rows("SELECT place, closed FROM taken WHERE birth = ?", standing.birth)
        worked = False
        for stay in () if is_closed else standing.stays:
            for place, pieces, here in self._next(standing, stay, taken):
                if here < pieces:
                    return worked
                self._take(standing, stay, place)
                taken, worked = place, True
            if stay.until is None or not (stay.broken_off or self._has_ended(standing, stay)):
                return worked
        if not is_closed:
            with self._store.transaction():
                self._store.rows("UPDATE taken SET closed = 1 WHERE birth = ?", standing.birth)
                self._add_route(standing, ends=True)
        return worked

    def _next(self, standing: StandingQuery, stay: Stay, taken: int) -> list[tuple[int, int, int]]:
        """The batches of a stay with answers that are not taken: place, how many messages they are and are here."""
        found: list[tuple[int, int, int]] = self._store.rows(
            "SELECT place, max(pieces), count(*) FROM waiting WHERE birth = ? AND provider = ? AND since = ? "
            "AND place > ? AND place <= ? GROUP BY place ORDER BY place",
            *(standing.birth, stay.provider, stay.since, max(taken, stay.after)),
            stay.until if stay.until is not None else 1 << 62,
        )
        return found

    def _has_ended(self, standing: StandingQuery, stay: Stay) -> bool:
        """Whether a provider has said that no more answers will come from a stay that has an end."""
        said = "SELECT 1 FROM ended WHERE birth = ? AND provider = ? AND through >= ?"
        return bool(self._store.rows(said, standing.birth, stay.provider, stay.until))

    def _take(self, standing: StandingQuery, stay: Stay, place: int) -> None:
        whole = "birth = ? AND place = ? AND provider = ? AND since = ? ORDER BY ordinal"
        wanted = standing.birth, place, stay.provider, stay.since
        pieces = self._store.rows(f"SELECT rows, watermark FROM waiting WHERE {whole}", *wanted)
        rows = pa.concat_tables(table_of(data) for data, _ in pieces)
        with self._store.transaction():
            self._add_parcel(standing, stream_of(rows), pieces[0][1], None)
            self._store.rows("UPDATE taken SET place = ? WHERE birth = ?", place, standing.birth)
            self._store.rows("DELETE FROM waiting WHERE birth = ? AND place <= ?", standing.birth, place)

    # --- the delivery log ----------------------------------------------------------------------------------------

    def _add_route(self, standing: StandingQuery, *, ends: bool = False) -> None:
        """Have the delivery log say where a query's answers are found, or that they have ended."""
        columns = [each.name for each in standing.query.relation.fields]
        self._add_parcel(standing, None, None, msgspec.json.encode({"columns": columns, "ends": ends}).decode())

    def _add_parcel(
        self, standing: StandingQuery, rows: bytes | None, watermark: int | None, route: str | None
    ) -> None:
        values = standing.birth, standing.name, watermark, rows, route
        self._store.rows("INSERT INTO parcels SELECT coalesce(max(cycle), -1) + 1, ?, ?, ?, ?, ? FROM parcels", *values)

    def _renew_routes(self) -> None:
        """Say again where the answers of all queries of users here are found."""
        with self._store.transaction():
            for birth, closed in self._store.rows("SELECT birth, closed FROM taken"):
                if not closed and birth in self._follower.ledger.queries:
                    self._add_route(self._follower.ledger.queries[birth])
        self._lacks_routes = False

    def _publish(self) -> bool:
        """Write what was taken into the delivery log."""
        found = self._store.rows("SELECT * FROM parcels WHERE rows IS NOT NULL OR route IS NOT NULL ORDER BY cycle")
        for cycle, birth, query, watermark, data, route in found:
            # Each query is a group of its own here, and one that never changes.
            group = f"{query}@{birth}"
            published = [] if data is None else [Message(group, 0, table_of(data), watermark)]
            control = [] if route is None else [route_of(query, group, cycle, **msgspec.json.decode(route))]
            self._publisher.write(cycle, published, control)
            self._publisher.committed(cycle)
            with self._store.transaction():
                self._store.rows("UPDATE parcels SET rows = NULL, route = NULL WHERE cycle = ?", cycle)
                self._store.rows("DELETE FROM parcels WHERE cycle < ?", cycle)
        return bool(found)


def route_of(query: str, group: str, cycle: int, columns: list[str], ends: bool) -> Itinerary:
    """Where a query's answers are found in the delivery log of its home: all rows of a group of its own."""
    subscription = Subscription(group, tuple((name, name) for name in columns))
    return Itinerary(query, (subscription,), (Span(group, 0),), cycle + 1 if ends else None)
