"""A federation of processes: a NATS server, a coordinator, two sources and three providers, all on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.federation.live.oracle_of_log import answers_of_log
from tests.federation.live.small_federation import OWNERS, PROVIDERS, stream_statement, write_batch
from tests.support.peers import difference
from tests.support.processes import NatsServer
from tests.support.spark_session import SMALL_JOBS
from weft.delivery.delivery_log import cycles, delivery_directory, read_parcel
from weft.federation.live.coordinator_requests import asked
from weft.federation.live.messages import entry_of
from weft.federation.live.site_directory import Follower, RoleStore
from weft.federation.live.transport import Transport

_ROOT = Path(__file__).parents[3]
_PATIENCE = 400.0

TOPOLOGY = {
    "sites": [
        *({"name": name, "capability": 1} for name in PROVIDERS),
        {"name": "feed", "source": True},
        {"name": "tape", "source": True},
    ],
    "links": [
        {"between": ["n1", "n2"], "milliseconds": 5},
        {"between": ["n2", "n3"], "milliseconds": 4},
        {"between": ["feed", "n1"], "milliseconds": 2},
        {"between": ["tape", "n3"], "milliseconds": 3},
    ],
}


class RealFederation:
    """Processes, and what a test asks of them. Use it in a `with`: all of them end with it."""

    def __init__(self, directory: Path, patience: float = 12.0) -> None:
        self.directory = directory
        self._nats = NatsServer(directory / "store")
        self._patience = patience
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.batches = dict.fromkeys(OWNERS, 0)

    def __enter__(self) -> RealFederation:
        self._nats.start()
        self.address = f"{self._nats.url}/proof"
        self.transport = Transport(self._nats.url, "proof")
        (self.directory / "topology.yaml").write_text(yaml.safe_dump(TOPOLOGY))
        self._start_coordinator()
        for site in ("feed", "tape"):
            self.start(site, "--source-only")
        for site in PROVIDERS:
            self.start(site)
        self.wait(lambda: len(self.status()["sites"]) == 5, "all sites have joined")
        for stream, site in OWNERS.items():
            self.execute(site, stream_statement(stream, self.directory / "incoming"))
        return self

    def __exit__(self, *_: object) -> None:
        for site in list(self._processes):
            self.kill(site)
        self.transport.close()
        self._nats.stop()

    # --- processes -----------------------------------------------------------------------------------------------

    def start(self, site: str, *options: str) -> None:
        """`weft provider`."""
        spark = [] if options else ["--master", "local[1]"]
        for name, value in {} if options else {**SMALL_JOBS, "spark.driver.memory": "700m"}.items():
            spark += ["--conf", f"{name}={value}"]
        beat = str(self._patience / 6)
        self._start(
            site, "provider", site, "--project", str(self.directory / site), "--heartbeat", beat, *spark, *options
        )

    def kill(self, site: str) -> None:
        """kill -9, Python and Java together."""
        process = self._processes.pop(site)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def restart_coordinator(self) -> None:
        """kill -9, and another one."""
        self.kill("coordinator")
        self._start_coordinator()

    def _start_coordinator(self) -> None:
        """`weft coordinator`."""
        topology, state = str(self.directory / "topology.yaml"), str(self.directory / "coordinator")
        self._start("coordinator", "coordinator", topology, "--state", state, "--patience", str(self._patience))

    def _start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "weft", *arguments, "--federation", self.address]
        with (self.directory / f"{name}.txt").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                command, cwd=_ROOT, stdout=output, stderr=output, start_new_session=True
            )

    def command(self, *arguments: str) -> str:
        """What a command of `weft` prints, as a user has it."""
        done = subprocess.run(
            [sys.executable, "-m", "weft", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def said(self) -> str:
        """What all processes have said, for a test that fails."""
        return "\n".join(
            f"--- {path.stem}\n{path.read_text()[-3000:]}" for path in sorted(self.directory.glob("*.txt"))
        )

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + _PATIENCE
        while not holds():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} has ended while we waited until {what}\n{self.said()}")
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain until {what}\n{self.said()}")
            time.sleep(0.2)

    # --- requests ------------------------------------------------------------------------------------------------

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        return asked(self.transport, kind, timeout=_PATIENCE, **fields)

    def execute(self, site: str, text: str) -> None:
        self.ask("statement", at=site, text=text)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("status")["status"]
        return found

    def provider_of(self, query: str) -> str:
        return next(each["provider"] for each in self.status()["queries"] if each["name"] == query)

    def publish(self, stream: str, rows: list[tuple[Any, ...]]) -> None:
        """A file appears."""
        write_batch(self.directory / "incoming", stream, self.batches[stream], rows)
        self.batches[stream] += 1

    def published(self) -> bool:
        """Whether the log has all batches."""
        return {each["name"]: each["batches"] for each in self.status()["streams"]} == self.batches

    # --- answers -------------------------------------------------------------------------------------------------

    def delivered(self) -> dict[str, list[list[tuple[Any, ...]]]]:
        """By query what users were given at its home, batch by batch."""
        found: dict[str, list[list[tuple[Any, ...]]]] = {}
        for site in PROVIDERS:
            folder = delivery_directory(self.directory / site)
            for cycle in cycles(folder):
                parcel = read_parcel(folder, cycle)
                for message in parcel.messages if parcel is not None else ():
                    rows = [tuple(row.values()) for row in message.rows.to_pylist()]
                    found.setdefault(message.group, []).append(rows)
        return found

    def differences(self) -> list[str]:
        """Where what users were given is not what the oracle says, which is given the log with whole batches."""
        follower = Follower(self.transport, RoleStore(self.directory / "reader.db"))
        expected = answers_of_log(follower.read(), self.directory / "incoming")
        actual = self.delivered()
        relations = {f"{each.name}@{birth}": each.query.relation for birth, each in follower.ledger.queries.items()}
        found = []
        for name, relation in relations.items():
            one, other = expected.get(name, []), actual.get(name, [])
            if len(one) != len(other):
                found.append(f"{name}: {len(other)} batches of answers, expected {len(one)}")
            for number, (a, b) in enumerate(zip(one, other, strict=False)):
                differs = difference(relation, a, b)
                if differs:
                    found.append(f"{name}, batch {number} of its answers: {differs}")
        return found


def entries_of_kind(transport: Transport, kind: type[Any]) -> list[Any]:
    """The entries of the log of one kind."""
    return [entry for _, data in transport.entries(0) if isinstance(entry := entry_of(data), kind)]
