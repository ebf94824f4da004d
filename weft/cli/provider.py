"""`weft provider`: one site of a federation, with an engine of its own."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.federation import AddressOption, federating_clearly
from weft.cli.output import print_text
from weft.cli.run import spark_settings


def provider(
    site: Annotated[str, typer.Argument(help="The site's name in the topology.")],
    federation: AddressOption,
    directory: Annotated[Path, typer.Option("--project", metavar="DIR", help="The site's own directory.")],
    source_only: Annotated[
        bool, typer.Option("--source-only", help="Run no queries: only send the streams of this site.")
    ] = False,
    master: Annotated[str | None, typer.Option(help="Spark master; local[*] unless given.")] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="spark.x=y", help="A setting of Spark; repeatable.")] = None,
    heartbeat: Annotated[float, typer.Option(help="Seconds between two signs of life.")] = 10.0,
) -> None:
    """Take part in a federation: run the queries that it gives to this site, and bring its users their answers."""
    with federating_clearly(as_json=False):
        from weft.federation.live.nats_wire import NatsWire
        from weft.federation.live.place_file import Membership, checked_address, write_membership
        from weft.federation.live.site import SiteProcess, SiteSettings

        server, name = checked_address(federation)
        settings = spark_settings(conf or [])
        write_membership(directory, Membership(site, federation))
        make_engine = None
        if not source_only:
            from weft.federation.live.spark_engine import spark_engines

            make_engine = spark_engines(master, settings)
        process = SiteProcess(
            SiteSettings(site, directory, lambda: NatsWire(server, name), heartbeat), make_engine, print_text
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: process.stop())
        print_text(f"{site} takes part in {name}; Ctrl-C stops it after the batch that is running")
        process.run()
