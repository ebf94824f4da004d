"""The link from an edge to another one that takes its rows from it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from weft.delivery.edges.relay import Covered, LinkCount
from weft.delivery.log import itinerary
from weft.delivery.log.delivery_errors import DeliveryError, UnknownQuery
from weft.delivery.log.parcel import Gone, Parcel, encode
from weft.delivery.matching.members import Members, share
from weft.delivery.subscribers.edge_protocol import (
    HEARTBEAT,
    LARGEST_REQUEST,
    PARCEL,
    LinkChange,
    change_of,
    frame,
    json_frame,
    read_frame,
)
from weft.delivery.subscribers.hub import Hub, Reader

Cover = Callable[[str], contextlib.AbstractAsyncContextManager[Covered]]


class ChildLink:
    """Sends another edge parcels with the rows that it has asked for, each row once."""

    def __init__(self, hub: Hub, after: int | None, limit: int) -> None:
        self.count = LinkCount()
        self._hub = hub
        self._members = Members()
        self._event = asyncio.Event()
        self._changes: asyncio.Queue[LinkChange | DeliveryError | None] = asyncio.Queue()
        self._covers: dict[str, contextlib.AsyncExitStack] = {}
        self._loop = asyncio.get_running_loop()
        self._parcels: Reader[Parcel | Gone] = Reader(
            hub,
            hub.through if after is None else after,
            lambda parcel: share(parcel, self._members, tell=True),
            lambda after, until, rows: Gone(until),
            self._wake,
            limit,
        )

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._event.set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cover: Cover) -> None:
        """Do what the other edge asks for until it hangs up."""
        listening = asyncio.ensure_future(self._listen(reader))
        writer.write(json_frame(ok=self._parcels.place))
        is_ready = False
        try:
            while True:
                self._event.clear()
                while not self._changes.empty():
                    change = self._changes.get_nowait()
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
        try:
            while True:
                _, content = await read_frame(reader, LARGEST_REQUEST)
                self._changes.put_nowait(change_of(content))
                self._event.set()
        except OSError:
            self._changes.put_nowait(None)
            self._event.set()
        except DeliveryError as error:
            self._changes.put_nowait(error)
            self._event.set()

    async def _changed(self, change: LinkChange, cover: Cover) -> bytes:
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
            return json_frame(added=query, route=None, through=place)
        except DeliveryError as error:
            return json_frame(added=query, route=None, through=place, refused=str(error))
        self._covers[query] = stack
        newest, _ = self._hub.route(query)
        self._members.put(newest or covered.route)
        route = itinerary.as_json(self._members.routes[query])
        return json_frame(added=query, route=route, through=max(place, covered.after))

    async def _next_frame(self) -> bytes:
        """What comes next; nothing if there is something else to do first."""
        item = self._parcels.take() if self._parcels.is_live else await asyncio.to_thread(self._parcels.take)
        if isinstance(item, Parcel):
            data = encode(item)
            self.count.add(item, len(data))
            return frame(PARCEL, data)
        if item is not None:
            return json_frame(gone=item.until)
        return await self._silence()

    async def _silence(self) -> bytes:
        """Wait for something to do; after a while, how far all was sent."""
        try:
            await asyncio.wait_for(self._event.wait(), HEARTBEAT)
        except TimeoutError:
            return json_frame(through=self._parcels.place)
        return b""
