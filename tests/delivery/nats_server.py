"""A NATS server of our own: on a free loopback port, with a store in a temporary directory."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class NatsServer:
    """A server that can be stopped, killed and started again on the same port and store."""

    def __init__(self, store: Path) -> None:
        found = shutil.which("nats-server")
        if found is None:
            pytest.fail(
                "the tests of delivery over NATS need nats-server: scripts/find-nats installs it where it may "
                "(Debian: sudo apt-get install nats-server)",
                pytrace=False,
            )
        self._program = found
        self._store = store
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [self._program, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._store)]
        with (self._store.parent / "nats-server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("nats-server did not start; see " + str(self._store.parent / "nats-server.log"))

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            (self._process.kill if kill else self._process.terminate)()
            self._process.wait(30)
            self._process = None
