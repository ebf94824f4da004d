"""`weft coordinator`: who holds the tree of a federation, and decides."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.federation import AddressOption, federating_clearly
from weft.cli.output import print_text


def coordinator(
    topology: Annotated[Path, typer.Argument(metavar="TOPOLOGY", help="A YAML file of sites and links.")],
    federation: AddressOption,
    directory: Annotated[Path, typer.Option("--state", metavar="DIR", help="Where it notes how far it has come.")],
    patience: Annotated[
        float, typer.Option(help="Seconds of silence after which a provider has failed: three heartbeats.")
    ] = 30.0,
    every: Annotated[
        float, typer.Option(help="Seconds between two rounds of redistribution; 0 leaves them to you.")
    ] = 0.0,
) -> None:
    """Decide where the queries of a federation run. What it has decided is with the broker: it may be restarted."""
    with federating_clearly(as_json=False):
        from weft.federation.live.coordination import Coordination
        from weft.federation.live.nats_wire import NatsWire
        from weft.federation.live.place_file import checked_address
        from weft.federation.live.site import run_role
        from weft.federation.topology import read_topology

        server, name = checked_address(federation)
        coordination = Coordination(
            read_topology(topology),
            directory,
            NatsWire(server, name),
            patience=patience,
            every=every or None,
            say=print_text,
        )
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        print_text(f"coordinating {name}; Ctrl-C stops it")
        run_role(coordination, stopped, print_text)
