"""Users of an edge. One that loses its edge asks again, from where it was, until it is closed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from weft.delivery.batch import Dropped
from weft.delivery.edges.frames import BATCH, VERSION, FrameSocket, batch_of, error_of, json_frame, split_host
from weft.delivery.errors import BrokerError, DeliveryError
from weft.delivery.log import Limits
from weft.delivery.users.fed import FedSubscriber
from weft.delivery.users.start import Start


class RemoteSubscriber(FedSubscriber):
    """Takes a query's answers from an edge."""

    def __init__(self, address: str, query: str, start: Start, token: str | None, limits: Limits, wait: bool) -> None:
        super().__init__(query, limits.queue)
        self._address = split_host(address)
        self._shown = address
        self._start = start
        self._token = token
        self._wait = wait
        self._socket: FrameSocket | None = None
        try:
            self._connect()
        except OSError as error:
            raise DeliveryError(f"the edge {address} cannot be reached ({error}); is it running?") from error
        self._position = self._from
        if not start.last and start.since is None and start.since_clock is None:
            # "From now on" was then, also when the edge is asked again.
            self._go_on_after(self._from)
        self._thread.start()

    def close(self) -> None:
        super().close()
        if self._socket is not None:
            self._socket.close()
        self._thread.join(10)

    def _connect(self) -> None:
        opened = FrameSocket(*self._address)
        try:
            hello = {"weft": VERSION, "role": "user", "query": self.query, "token": self._token, "wait": self._wait}
            opened.send(json_frame(**hello, **asdict(self._start)))
            self._from = int(opened.receive_json()["ok"])
        except BaseException:
            opened.close()
            raise
        self._socket = opened

    def _feed(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                if self._socket is None:
                    self._connect()
                failures = 0
                if self._receive():
                    return
            except (OSError, BrokerError):
                # The edge, or what it takes its rows from, is away; it may come back.
                if self._socket is not None:
                    self._socket.close()
                self._socket = None
                self._pause(failures)
                failures += 1

    def _receive(self) -> bool:
        """Take what comes over one connection; true when there will be no more."""
        assert self._socket is not None
        while not self._closing.is_set():
            kind, content = self._socket.receive()
            if kind == BATCH:
                batch = batch_of(self.query, content)
                self._put(batch.cycle, batch)
                self._go_on_after(batch.cycle)
                continue
            document = json.loads(content)
            if "error" in document:
                raise error_of(document)
            if "end" in document:
                return True
            if "until" in document:
                dropped = Dropped(self.query, document["after"], document["until"], document.get("rows"))
                self._put(dropped.until, dropped)
            else:
                self._put(document["through"], None)
            self._go_on_after(document.get("until", document.get("through")))
        return True

    def _go_on_after(self, cycle: int) -> None:
        self._start = replace(self._start, last=None, since=None, since_clock=None, after=cycle)
