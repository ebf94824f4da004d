"""Many users in one process: a connection each, as their own processes would have."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from io import BytesIO

from weft.delivery.edge_protocol import PARCEL, VERSION, json_frame, read_frame
from weft.delivery.parcel import read_head


class Users:
    """Takes answers and notes when they came. Rows are not decoded: that is work of the users' own machines."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        self._places = places
        self.cycles = [-1] * len(places)
        self.late: list[tuple[int, float]] = []
        self._ready = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._tasks = [self._loop.create_task(self._user(at, *place)) for at, place in enumerate(self._places)]
        self._loop.run_forever()

    async def _user(self, at: int, query: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        nothing = {"last": None, "since": None, "after": None, "until": None}
        writer.write(json_frame(weft=VERSION, role="user", query=query, token=None, wait=False, **nothing))
        await read_frame(reader)
        self._ready += 1
        while True:
            kind, content = await read_frame(reader)
            if kind == PARCEL:
                now = time.time_ns() / 1000
                head = read_head(BytesIO(content))
                self.cycles[at] = head.cycle
                self.late.append((head.cycle, (now - head.at) / 1000))
            else:
                self.cycles[at] = max(self.cycles[at], json.loads(content).get("through", -1))

    def wait_until_ready(self, patience: float) -> None:
        self._wait(lambda: self._ready == len(self._places), patience, "not all users could connect")

    def wait_for(self, cycle: int, queries: Collection[str], patience: float) -> None:
        """Wait until the users of some queries, which have answers in a cycle, have come to it."""
        places = [at for at, (query, _) in enumerate(self._places) if query in queries]
        self._wait(lambda: all(self.cycles[at] >= cycle for at in places), patience, f"not all came to cycle {cycle}")

    def _wait(self, holds: Callable[[], bool], patience: float, otherwise: str) -> None:
        end = time.monotonic() + patience
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(otherwise)
            time.sleep(0.01)

    def close(self) -> None:
        async def hang_up() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(hang_up(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
