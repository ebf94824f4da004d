"""The edge: a process that takes each row once over the link to where rows come from, and serves many users.

It looks up the rows of all its users' queries together (`hub`), gives each user what it shows, and other edges what
those behind them need (`ChildLink`). When it is killed and started again it goes on with what is in its directory, and
so do its users, who ask again from where they were.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from weft.delivery import edge_protocol, itinerary
from weft.delivery.access import ACCESS, AccessFile
from weft.delivery.delivery_errors import BrokerError, DeliveryError, LogError, UnknownQuery
from weft.delivery.delivery_log import BEGINNING, Limits
from weft.delivery.hub import Hub, Reader
from weft.delivery.members import Members, share
from weft.delivery.parcel import Batch, Dropped, Gone, Message, Parcel, encode
from weft.delivery.relay import Covered, LinkCount, Relay, feed_from
from weft.delivery.subscribe import LocalSubscriber, open_subscriber
from weft.delivery.subscriber import Start, Subscriber

_COVER_SECONDS = 25.0

_Cover = Callable[[str], contextlib.AbstractAsyncContextManager[Covered]]


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """How an edge is set up. Only this machine reaches it unless `host` says so.

    `upstream` is where rows come from: nats://…, weft://… or a delivery directory. `access` is a file of grants;
    without it, those of a delivery directory hold. `linger` is how many seconds a query's rows are still taken after
    its last user has gone, so that one who comes back finds them.
    """

    upstream: str
    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    access: Path | None = None
    token: str | None = None
    linger: float = 600.0
    limits: Limits = field(default_factory=Limits)


class Edge:
    """Serves users and other edges until it is closed. Raises DeliveryError if the grants cannot be read.

    `say` is given a sentence when no user can be let in any more, since the grants cannot be read, and when they can.
    """

    def __init__(self, settings: EdgeSettings, say: Callable[[str], None] = lambda sentence: None) -> None:
        self._settings = settings
        self._access: AccessFile | None = None
        if settings.access is not None:
            self._access = AccessFile(settings.access, is_required=True)
        elif "://" not in settings.upstream:
            self._access = AccessFile(Path(settings.upstream) / ACCESS)
        self._say = say
        self._closed_because: str | None = None
        self.needs_tokens = self._access is not None and self._access.read().grants is not None
        self._relay = Relay(settings.directory, feed_from(settings.upstream, settings.token), settings.limits)
        self._users: dict[str, int] = {}
        self._served = {"users": 0, "batches": 0, "rows": 0}
        self._links: list[LinkCount] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        for query in list(self._relay.covered):
            # Of users of the last process; they may come back.
            asyncio.get_running_loop().call_later(self._settings.linger, self._stop_covering, query)
        self._server = await asyncio.start_server(self._welcome, self._settings.host, self._settings.port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await asyncio.to_thread(self._relay.close)

    def status(self) -> dict[str, Any]:
        return {
            "problem": self._relay.problem,
            "through": self._relay.hub.through,
            "queries": len(self._relay.covered),
            "received": asdict(self._relay.count),
            "received_from_broker": self._relay.feed.bytes_from_broker,
            "served": dict(self._served),
            "links": [asdict(each) for each in self._links],
        }

    # -- connections --------------------------------------------------------------------------------------------------

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            _, content = await asyncio.wait_for(
                edge_protocol.read_frame(reader, edge_protocol.LARGEST_REQUEST), edge_protocol.SILENCE
            )
            request = edge_protocol.request_of(content)
            if isinstance(request, edge_protocol.UserRequest):
                await self._serve_user(request, writer)
            elif isinstance(request, edge_protocol.LinkRequest):
                link = ChildLink(self._relay.hub, request.after, self._settings.limits.queue)
                self._links.append(link.count)
                try:
                    await link.serve(reader, writer, partial(self._covered, request.token))
                finally:
                    self._links.remove(link.count)
            else:
                writer.write(edge_protocol.json_frame(ok=self.status()))
            await writer.drain()
        except DeliveryError as error:
            with contextlib.suppress(ConnectionError):
                writer.write(edge_protocol.error_frame(error))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.CancelledError):
            # The other side has hung up, or sent no frame; there is nothing to answer.
            pass
        finally:
            self._open.discard(task)
            writer.close()

    def _check(self, token: str | None, query: str) -> None:
        """Raises AccessDenied unless a token allows a query, and LogError while the grants cannot be read."""
        if self._access is None:
            return
        try:
            # Read again for each subscription, so that a token that is revoked is worthless at once.
            grants = self._access.read()
        except LogError as error:
            if self._closed_because != str(error):
                self._closed_because = str(error)
                self._say(str(error))
            raise
        if self._closed_because is not None:
            self._closed_because = None
            self._say("the grants can be read again; holders of tokens are let in")
        grants.check(token, query)

    @contextlib.asynccontextmanager
    async def _covered(self, token: str | None, query: str) -> AsyncIterator[Covered]:
        """Have a query's rows here as long as a user or a link with a token wants them, and a while longer."""
        self._check(token, query)
        self._users[query] = self._users.get(query, 0) + 1
        try:
            try:
                covered = await asyncio.wait_for(asyncio.wrap_future(self._relay.cover(query)), _COVER_SECONDS)
            except TimeoutError as error:
                problem = self._relay.problem or "nothing answers"
                raise BrokerError(f"this edge cannot get rows now: {problem}") from error
            yield covered
        finally:
            self._users[query] -= 1
            if not self._users[query]:
                loop = asyncio.get_running_loop()
                loop.call_later(self._settings.linger, self._stop_covering, query)

    def _stop_covering(self, query: str) -> None:
        if not self._users.get(query):
            self._users.pop(query, None)
            self._relay.uncover(query)

    # -- users --------------------------------------------------------------------------------------------------------

    async def _serve_user(self, request: edge_protocol.UserRequest, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with self._covered(request.token, request.query) as covered:
                    await self._serve_covered(request.query, request, covered, writer)
                return
            except UnknownQuery:
                if not request.wait:
                    raise
                await asyncio.sleep(0.2)

    async def _serve_covered(self, query: str, start: Start, covered: Covered, writer: asyncio.StreamWriter) -> None:
        here = max(self._relay.hub.through, covered.after)
        if start.until is not None:
            here = min(here, start.until)
        is_behind = start.after is not None and start.after < covered.after
        needs_history = start.last or start.since is not None or start.since_clock is not None or is_behind
        place = here if needs_history or start.after is None else start.after
        # A user that is cut off before anything came goes on from the beginning of what it asked for.
        first = start.after if start.after is not None else BEGINNING if needs_history else here
        writer.write(edge_protocol.json_frame(ok=first))
        self._served["users"] += 1
        if needs_history:
            earlier = Start(start.last, start.since, start.after, here, start.since_clock)
            source = self._settings.upstream, query, earlier, self._settings.token, self._settings.limits
            with contextlib.closing(await asyncio.to_thread(open_subscriber, *source)) as history:
                await self._pour(history, writer)
            writer.write(edge_protocol.json_frame(through=here))
        limits = self._settings.limits
        with LocalSubscriber(
            self._settings.directory, query, Start(after=place, until=start.until), None, limits
        ) as live:
            await self._pour(live, writer)
        writer.write(edge_protocol.json_frame(end=True))

    async def _pour(self, answers: Subscriber, writer: asyncio.StreamWriter) -> None:
        """Send a user its answers until they end, and how far they are when there are none."""
        coming = asyncio.ensure_future(anext(answers, None))
        try:
            while True:
                await asyncio.wait({coming}, timeout=edge_protocol.HEARTBEAT)
                if not coming.done():
                    writer.write(edge_protocol.json_frame(through=answers.position))
                else:
                    item = coming.result()
                    if item is None:
                        return
                    self._send(item, writer)
                    coming = asyncio.ensure_future(anext(answers, None))
                await writer.drain()
        finally:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, DeliveryError):
                await coming

    def _send(self, item: Batch | Dropped, writer: asyncio.StreamWriter) -> None:
        if isinstance(item, Dropped):
            writer.write(edge_protocol.json_frame(after=item.after, until=item.until, rows=item.rows))
            return
        message = Message(item.query, 0, item.table, item.watermark)
        writer.write(
            edge_protocol.frame(edge_protocol.PARCEL, encode(Parcel("", item.cycle, item.at, messages=(message,))))
        )
        self._served["batches"] += 1
        self._served["rows"] += item.table.num_rows


class ChildLink:
    """Sends another edge parcels with the rows that it has asked for, each row once."""

    def __init__(self, hub: Hub, after: int | None, limit: int) -> None:
        self.count = LinkCount()
        self._hub = hub
        self._members = Members()
        self._event = asyncio.Event()
        self._changes: deque[edge_protocol.LinkChange | DeliveryError | None] = deque()
        self._covers: dict[str, contextlib.AsyncExitStack] = {}
        loop = asyncio.get_running_loop()
        self._parcels: Reader[Parcel | Gone] = Reader(
            hub,
            hub.through if after is None else after,
            cut=lambda parcel: share(parcel, self._members, tell=True),
            dropped=lambda after, until, rows: Gone(until),
            wake=lambda: loop.call_soon_threadsafe(self._event.set),
            limit=limit,
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cover: _Cover) -> None:
        """Do what the other edge asks for until it hangs up."""
        listening = asyncio.ensure_future(self._listen(reader))
        writer.write(edge_protocol.json_frame(ok=self._parcels.place))
        is_ready = False
        try:
            while True:
                self._event.clear()
                while self._changes:
                    change = self._changes.popleft()
                    if change is None:
                        return
                    if isinstance(change, DeliveryError):
                        raise change
                    if change.ready is not None:
                        is_ready = True
                    else:
                        writer.write(await self._changed(change, cover))
                # A parcel that is sent before all of its queries are known would lack rows of the others.
                writer.write(await (self._next_frame() if is_ready else self._silence()))
                await writer.drain()
        finally:
            listening.cancel()
            self._parcels.close()
            for each in self._covers.values():
                await each.aclose()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Put what the other edge asks for into a queue; None when it has hung up."""
        change: edge_protocol.LinkChange | DeliveryError | None = edge_protocol.LinkChange()
        while isinstance(change, edge_protocol.LinkChange):
            try:
                _, content = await edge_protocol.read_frame(reader, edge_protocol.LARGEST_REQUEST)
                change = edge_protocol.change_of(content)
            except OSError:
                change = None
            except DeliveryError as error:
                change = error
            self._changes.append(change)
            self._event.set()

    async def _changed(self, change: edge_protocol.LinkChange, cover: _Cover) -> bytes:
        """Send a query's rows too, or not any more; returns the answer."""
        # What waits was cut for the queries of before: it is cut again, from the place up to which all was sent.
        self._parcels.go_back()
        place = self._parcels.place
        query = change.add
        if query is None:
            assert change.remove is not None
            self._members.remove(change.remove)
            if (stack := self._covers.pop(change.remove, None)) is not None:
                await stack.aclose()
            return b""
        stack = contextlib.AsyncExitStack()
        try:
            covered = await stack.enter_async_context(cover(query))
        except UnknownQuery:
            return edge_protocol.json_frame(added=query, route=None, through=place)
        except DeliveryError as error:
            return edge_protocol.json_frame(added=query, route=None, through=place, refused=str(error))
        self._covers[query] = stack
        self._members.put(self._hub.routes.get(query) or covered.route)
        route = itinerary.as_json(self._members.routes[query])
        return edge_protocol.json_frame(added=query, route=route, through=max(place, covered.after))

    async def _next_frame(self) -> bytes:
        """What comes next; nothing if there is something else to do first."""
        item = self._parcels.take() if self._parcels.is_live else await asyncio.to_thread(self._parcels.take)
        if isinstance(item, Parcel):
            data = encode(item)
            self.count.add(item, len(data))
            return edge_protocol.frame(edge_protocol.PARCEL, data)
        if item is not None:
            return edge_protocol.json_frame(gone=item.through)
        return await self._silence()

    async def _silence(self) -> bytes:
        """Wait for something to do; after a while, how far all was sent."""
        try:
            await asyncio.wait_for(self._event.wait(), edge_protocol.HEARTBEAT)
        except TimeoutError:
            return edge_protocol.json_frame(through=self._parcels.place)
        return b""
