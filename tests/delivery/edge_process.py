"""A real edge in a process of its own, to be killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from weft.delivery.frames import VERSION, FrameSocket, json_frame


class EdgeProcess:
    """`weft edge` on a free loopback port, which it keeps when it is started again."""

    def __init__(self, upstream: str, state: Path, *options: str) -> None:
        self._command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "weft",
            "edge",
            upstream,
            "--state",
            str(state),
            *options,
        ]
        self._state = state
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"weft://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._state.mkdir(parents=True, exist_ok=True)
        with (self._state / "edge.log").open("ab") as log:
            self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert self._process.poll() is None, (self._state / "edge.log").read_text()
            try:
                self.status()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the edge did not start: " + (self._state / "edge.log").read_text())

    def status(self) -> dict[str, Any]:
        opened = FrameSocket("127.0.0.1", self.port)
        try:
            opened.send(json_frame(weft=VERSION, role="status"))
            status: dict[str, Any] = opened.receive_json()["ok"]
            return status
        finally:
            opened.close()

    def kill(self) -> None:
        """As a power cut would."""
        self._end(kill=True)

    def stop(self) -> None:
        self._end(kill=False)

    def log(self) -> str:
        return (self._state / "edge.log").read_text()

    def _end(self, *, kill: bool) -> None:
        if self._process is not None:
            (self._process.kill if kill else self._process.terminate)()
            process, self._process = self._process, None
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                # Says on its way out what each of its threads was doing.
                process.send_signal(signal.SIGABRT)
                process.wait(20)
                raise AssertionError("the edge did not stop: " + self.log()) from None
