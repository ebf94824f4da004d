"""`weft provider`, `coordinator` and `federation`: taking part in a federation, and seeing what it does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import output
from weft.cli.run import spark_settings

AddressOption = Annotated[
    str,
    typer.Option("--federation", metavar="ADDRESS", help="The federation's broker and name: nats://host:port/name."),
]
OptionalAddress = Annotated[
    str | None,
    typer.Option("--federation", metavar="ADDRESS", help="nats://host:port/name; that of --project if left out."),
]
SiteOption = Annotated[Path, typer.Option("--project", metavar="DIR", help="The directory of one of its sites.")]

federation = typer.Typer(help="See what a federation does, and change it.", no_args_is_help=True)


def ask(kind: str, address: str | None, site: Path, **fields: Any) -> dict[str, Any]:
    """What the coordinator of a federation answers."""
    from weft.federation.live.coordinator_requests import asked
    from weft.federation.live.site_directory import checked_address, find_membership
    from weft.federation.live.transport import Transport

    if address is None:
        known = find_membership(site)
        if known is None:
            raise output.CommandFailure(
                f"{site} is not the directory of a federation's site; give --federation nats://host:port/name"
            )
        address = known.address
    server, name = checked_address(address)
    transport = Transport(server, name)
    try:
        return asked(transport, kind, **fields)
    finally:
        transport.close()


@federation.command()
def status(address: OptionalAddress = None, site: SiteOption = Path(), as_json: output.JsonOption = False) -> None:
    """Show which sites take part, what runs where, and how far each is."""
    with output.reporting_failures(as_json):
        found = ask("status", address, site)["status"]
    if as_json:
        output.print_json(found)
        return
    leading = ", ".join(found["coordinators"]) or "nobody yet"
    output.print_text(f"{len(found['queries'])} queries; entry {found['place']} of the log; led by {leading}")
    if found["edge_cut"] is not None:
        output.print_text(
            f"edge cut {found['edge_cut']:,.0f} bytes/s × ms; the fullest has {found['fullest']:.2f} of its share"
        )
    sites = [
        (each["name"], each["state"], str(each["queries"]), f"{each['load']:.3f}", str(each["through"]))
        for each in found["sites"]
    ]
    output.print_table(("site", "state", "queries", "load", "answered up to"), sites)
    streams = []
    for each in found["streams"]:
        clock = "-" if each["clock"] is None else str(each["clock"])
        rate = "-" if each["rate"] is None else f"{each['rate']:,.0f}"
        streams.append((each["name"], each["owner"], str(each["batches"]), clock, rate))
    output.print_table(("stream", "owner", "batches", "clock", "bytes/s"), streams)
    queries = [(each["name"], each["home"], each["provider"], str(each["since"])) for each in found["queries"]]
    output.print_table(("query", "home", "runs at", "since"), queries)


@federation.command()
def plan(
    address: OptionalAddress = None,
    site: SiteOption = Path(),
    apply: Annotated[bool, typer.Option("--apply", help="Carry it out.")] = False,
    budget: Annotated[
        float | None, typer.Option(help="At most so many bytes of state times milliseconds are carried.")
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show what a round of redistribution would move; with --apply, move it."""
    with output.reporting_failures(as_json):
        found = ask("plan", address, site, apply=apply, budget=budget)
    if as_json:
        output.print_json({"moves": found["moves"], "applied": apply})
        return
    output.print_text("\n".join(found["said"]))
    moves = [(each["query"], each["source"], each["target"], f"{each['saves']:,.0f}") for each in found["moves"]]
    if moves:
        output.print_table(("query", "from", "to", "saves"), moves)


@federation.command()
def move(
    query: Annotated[str, typer.Argument(help="The query.")],
    target: Annotated[str, typer.Argument(help="The provider that shall run it.")],
    address: OptionalAddress = None,
    site: SiteOption = Path(),
    as_json: output.JsonOption = False,
) -> None:
    """Have a query run elsewhere. No answer is lost by it, and none comes twice."""
    with output.reporting_failures(as_json):
        _print_said(ask("move", address, site, query=query, target=target)["said"], as_json)


@federation.command()
def explain(
    query: Annotated[str, typer.Argument(help="The query.")],
    address: OptionalAddress = None,
    site: SiteOption = Path(),
    as_json: output.JsonOption = False,
) -> None:
    """Say why a query runs where it runs, what it shares there, and what moving it would cost."""
    with output.reporting_failures(as_json):
        _print_said(ask("explain", address, site, query=query)["said"], as_json)


@federation.command()
def picture(
    file: Annotated[Path, typer.Argument(metavar="FILE.svg", help="Where to draw it.")],
    address: OptionalAddress = None,
    site: SiteOption = Path(),
    as_json: output.JsonOption = False,
) -> None:
    """Draw the network: sites and links, loads, the ways of streams, and the tree of coordinators."""
    with output.reporting_failures(as_json):
        file.write_text(ask("picture", address, site)["svg"])
        _print_said([f"{file} is drawn"], as_json)


def _print_said(said: list[str], as_json: bool) -> None:
    output.print_either(as_json, {"ok": True, "said": said}, *said)


def _stop_by_signals(stop: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop())


def provider(
    site: Annotated[str, typer.Argument(help="The site's name in the topology.")],
    federation: AddressOption,
    directory: Annotated[Path, typer.Option("--project", metavar="DIR", help="The site's own directory.")],
    source_only: Annotated[
        bool, typer.Option("--source-only", help="Run no queries: only send the streams of this site.")
    ] = False,
    master: output.MasterOption = None,
    conf: output.ConfOption = None,
    heartbeat: Annotated[float, typer.Option(help="Seconds between two signs of life.")] = 10.0,
) -> None:
    """Take part in a federation: run the queries that it gives to this site, and bring its users their answers."""
    with output.reporting_failures():
        from weft.federation.live.site import SiteProcess
        from weft.federation.live.site_directory import SiteMembership, checked_address, write_membership
        from weft.federation.live.transport import Transport

        server, name = checked_address(federation)
        settings = spark_settings(conf or [])
        write_membership(directory, SiteMembership(site, federation))
        make_engine = None
        if not source_only:
            from weft.federation.live.provider_engine import spark_engines

            make_engine = spark_engines(master, settings)
        connect = partial(Transport, server, name)
        process = SiteProcess(site, directory, connect, make_engine, output.print_text, heartbeat)
        _stop_by_signals(process.stop)
        output.print_text(f"{site} takes part in {name}; Ctrl-C stops it after the batch that is running")
        process.run()


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
    with output.reporting_failures():
        from weft.federation.distribution.topology import read_topology
        from weft.federation.live.coordination import Coordination
        from weft.federation.live.site import run_role
        from weft.federation.live.site_directory import checked_address
        from weft.federation.live.transport import Transport

        server, name = checked_address(federation)
        coordination = Coordination(
            read_topology(topology),
            directory,
            Transport(server, name),
            patience=patience,
            every=every or None,
            say=output.print_text,
        )
        stopped = threading.Event()
        _stop_by_signals(stopped.set)
        output.print_text(f"coordinating {name}; Ctrl-C stops it")
        run_role(lambda: coordination, stopped, output.print_text)
