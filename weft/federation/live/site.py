"""What the process of a site runs: up to three roles, each in a thread with a connection of its own.

    source agent    if the site is a source in the topology
    result inbox    if it has users: at every provider
    provider        if it has a capability; its engine runs in the thread that called `run`

A role that cannot reach the broker tries again. Anything else that goes wrong ends the process, which can be started
again at any time: all that it must know is on its disk or with the broker.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from weft.delivery.delivery_errors import BrokerError
from weft.federation import FederationError
from weft.federation.live.messages import COORDINATOR, entry_of, message_of, reply_mailbox, send
from weft.federation.live.provider import Provider
from weft.federation.live.provider_engine import EngineMaker
from weft.federation.live.result_inbox import ResultInbox
from weft.federation.live.site_directory import Role
from weft.federation.live.source_agent import SourceAgent
from weft.federation.live.transport import Transport

_IDLE = 0.1
_AWAY = 0.5


@dataclass(eq=False)
class SiteProcess:
    """The roles of one site. `connect` reaches the broker, `make_engine` is None if the site runs no queries.

    Every `heartbeat` seconds it says that it is there.
    """

    site: str
    directory: Path
    connect: Callable[[], Transport]
    make_engine: EngineMaker | None
    say: Callable[[str], None] = lambda sentence: None
    heartbeat: float = 10.0
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)
    _failure: BaseException | None = field(default=None, init=False)

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        """Take part until it is stopped. Raises what has gone wrong."""
        make: list[Callable[[], Role]] = [lambda: SourceAgent(self.site, self.directory, self.connect())]
        if self.make_engine is not None:
            make.append(lambda: ResultInbox(self.site, self.directory, self.connect(), self.say))
        threads = [threading.Thread(target=self._guarded, args=(each,), daemon=True) for each in make]
        threads.append(threading.Thread(target=self._beat, daemon=True))
        for thread in threads:
            thread.start()
        if self.make_engine is not None:
            self._guarded(partial(self._provider, self.make_engine))
        else:
            self._join(is_new=False)
            self._stopped.wait()
        reason = "it was asked to" if self._failure is None else str(self._failure) or type(self._failure).__name__
        # If the broker cannot be reached, the coordinator notices the silence.
        with closing(self.connect()) as transport, suppress(BrokerError):
            self._tell(transport, "stopped", reason=reason)
        for thread in threads:
            thread.join(30)
        if self._failure is not None:
            raise self._failure

    def _provider(self, make_engine: EngineMaker) -> Role:
        """The provider, when the federation has taken it in."""
        rejoin = partial(self._join, is_new=False)
        provider = Provider(self.site, self.directory, self.connect(), make_engine, self.say, self._idle, rejoin)
        self._join(is_new=provider.is_new)
        provider.start_over()
        self.say(f"{self.site} has joined; it goes on behind place {provider.place} of the log")
        return provider

    def _guarded(self, make: Callable[[], Role]) -> None:
        try:
            run_role(make, self._stopped, self.say)
        except BaseException as error:
            self._failure = self._failure or error
            self._stopped.set()

    def _idle(self) -> None:
        if self._stopped.wait(_IDLE):
            raise BrokerError("this process is stopping")

    def _join(self, *, is_new: bool) -> None:
        """Ask to be taken in, and wait until the log says so."""
        with closing(self.connect()) as transport:
            identity = uuid.uuid4().hex
            fields = {"id": identity, "site": self.site, "new": is_new}
            send(transport, COORDINATOR, identity, "join", fields)
            place = 0
            while not self._stopped.is_set():
                entries = transport.entries(place, 0.5)
                if any(getattr(entry_of(data), "id", None) == identity for _, data in entries):
                    return
                place = entries[-1][0] if entries else place
                found = transport.take(reply_mailbox(identity), 0)
                if found is not None and not (reply := message_of(found[1]))["ok"]:
                    raise FederationError(reply["error"])

    def _beat(self) -> None:
        """Say now and then that the site is there, whatever its engine is busy with."""
        with closing(self.connect()) as transport:
            while not self._stopped.wait(self.heartbeat):
                with suppress(BrokerError):
                    self._tell(transport, "alive")

    def _tell(self, transport: Transport, kind: str, **fields: str) -> None:
        """Tell the coordinator how the site is."""
        identity = f"{kind}/{self.site}/{time.time_ns()}"
        send(transport, COORDINATOR, identity, kind, {"site": self.site, **fields})


def run_role(make: Callable[[], Role], stopped: threading.Event, say: Callable[[str], None]) -> None:
    """Run one role in this thread until it is stopped. While the broker is away it is tried again."""
    role: Role | None = None
    try:
        while not stopped.is_set():
            try:
                role = role or make()
                if not role.step():
                    stopped.wait(_IDLE)
            except BrokerError as error:
                say(str(error))
                stopped.wait(_AWAY)
    finally:
        if role is not None:
            role.close()
