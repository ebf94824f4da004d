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
from typing import Any

import pyarrow as pa

from weft.arrays.arrow_types import table_of
from weft.delivery.delivery_log import delivery_directory
from weft.delivery.itinerary import Itinerary, Span
from weft.delivery.parcel import Message, stream_of
from weft.delivery.publisher import Publisher, open_publisher
from weft.federation.live.ledger import StandingQuery, Stay
from weft.federation.live.messages import QueryCreated, SiteMessage, results_mailbox
from weft.federation.live.site_directory import Mailbox, Role
from weft.federation.live.transport import Transport
from weft.plan.subscription import Subscription

_TABLES = (
    # Answers that came and are not taken yet.
    "waiting (birth INTEGER, since INTEGER, place INTEGER, provider TEXT, ordinal INTEGER, pieces INTEGER, "
    "watermark INTEGER, rows BLOB NOT NULL, PRIMARY KEY (birth, since, place, provider, ordinal))",
    # By query the batch of the last answer that was taken, whether it was dropped and has no more, and the newest cycle
    # of the delivery log that is about it.
    "taken (birth INTEGER PRIMARY KEY, place INTEGER NOT NULL, closed INTEGER NOT NULL, cycle INTEGER NOT NULL)",
    "ended (birth INTEGER, provider TEXT, through INTEGER NOT NULL, PRIMARY KEY (birth, provider, through))",
)


class ResultInbox(Role):
    """Takes in the answers for the users of a site."""

    def __init__(
        self, site: str, directory: Path, transport: Transport, say: Callable[[str], None] = lambda sentence: None
    ) -> None:
        super().__init__(transport, directory / "results.db", _TABLES)
        self.site = site
        self._mailbox = Mailbox(transport, self._store, results_mailbox(site))
        ((newest,),) = self._store.rows("SELECT max(cycle) FROM taken")
        #: The newest cycle of the delivery log; and whether the log is a new one, and must be told where answers are.
        self._newest: int = -1 if newest is None else newest
        self._publisher, self._lacks_routes = open_publisher(
            delivery_directory(directory),
            lambda log, begins_after: Publisher(log, site, begins_after=begins_after),
            self._has_all,
            newest,
            say,
        )

    def _has_all(self, publisher: Publisher) -> bool:
        """Whether a delivery log has what was noted here, which readers may not see yet."""
        publisher.committed(self._newest)
        return self._newest < 0 or bool(publisher.log.heads)

    def close(self) -> None:
        self._publisher.close()
        super().close()

    def step(self) -> bool:
        """Take in what has come, and give users what is their turn; whether there was anything."""
        worked = False
        for place, entry in self._follower.read():
            worked = True
            is_mine = isinstance(entry, QueryCreated) and entry.home == self.site
            if is_mine and not self._store.rows("SELECT 1 FROM taken WHERE birth = ?", place):
                self._publish(self._follower.ledger.queries[place], place)
        if self._lacks_routes:
            for birth, taken in self._store.rows("SELECT birth, place FROM taken WHERE NOT closed"):
                if birth in self._follower.ledger.queries:
                    self._publish(self._follower.ledger.queries[birth], taken)
            self._lacks_routes = False
        # The mailbox is emptied after the log was read: what a provider that left had answered is then here.
        while (found := self._mailbox.next()) is not None:
            worked = True
            self._keep(*found)
        waiting = {birth for (birth,) in self._store.rows("SELECT DISTINCT birth FROM waiting")}
        for birth, standing in self._follower.ledger.queries.items():
            may_have = birth in waiting or len(standing.stays) > 1 or standing.ended is not None
            if standing.home == self.site and may_have:
                worked = self._release(standing) or worked
        return worked

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

    def _release(self, standing: StandingQuery) -> bool:
        """Take the answers of a query that are next."""
        ((taken, is_closed),) = self._store.rows("SELECT place, closed FROM taken WHERE birth = ?", standing.birth)
        worked = False
        if is_closed:
            return worked
        for stay in standing.stays:
            for place, pieces, here in self._next(standing, stay, taken):
                if here < pieces:
                    return worked
                found = self._store.rows(
                    "SELECT rows, watermark FROM waiting WHERE birth = ? AND provider = ? AND since = ? AND place = ? "
                    "ORDER BY ordinal",
                    *(standing.birth, stay.provider, stay.since, place),
                )
                self._publish(standing, place, pa.concat_tables(table_of(data) for data, _ in found), found[0][1])
                taken, worked = place, True
            if stay.until is None:
                return worked
            said = "SELECT 1 FROM ended WHERE birth = ? AND provider = ? AND through >= ?"
            if not (stay.broken_off or self._store.rows(said, standing.birth, stay.provider, stay.until)):
                return worked
        self._publish(standing, taken, ends=True)
        return True

    def _next(self, standing: StandingQuery, stay: Stay, taken: int) -> list[tuple[Any, ...]]:
        """The batches of a stay with answers that are not taken: place, how many messages they are and are here."""
        return self._store.rows(
            "SELECT place, max(pieces), count(*) FROM waiting WHERE birth = ? AND provider = ? AND since = ? "
            "AND place > ? AND place <= ? GROUP BY place ORDER BY place",
            *(standing.birth, stay.provider, stay.since, max(taken, stay.after)),
            stay.until if stay.until is not None else 1 << 62,
        )

    def _publish(
        self,
        standing: StandingQuery,
        taken: int,
        rows: pa.Table | None = None,
        watermark: int | None = None,
        *,
        ends: bool = False,
    ) -> None:
        """Write into the delivery log what was taken of a query up to a place; or where its answers are found.

        Each query is a group of its own there, and one that never changes.
        """
        cycle, group = self._newest + 1, f"{standing.name}@{standing.birth}"
        if rows is not None:
            self._publisher.write(cycle, [Message(group, 0, rows, watermark)])
        else:
            subscription = Subscription(group, tuple((each.name, each.name) for each in standing.query.relation.fields))
            ended = cycle + 1 if ends else None
            self._publisher.write(cycle, [], [Itinerary(standing.name, (subscription,), (Span(group, 0),), ended)])
        with self._store.transaction():
            self._store.rows("INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?)", standing.birth, taken, ends, cycle)
            self._store.rows("DELETE FROM waiting WHERE birth = ? AND place <= ?", standing.birth, taken)
        self._newest = cycle
        self._publisher.committed(cycle)
