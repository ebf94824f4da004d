"""`weft edge`: a process that brings answers to many users over one link."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.delivery import TokenOption, delivering_clearly
from weft.cli.output import print_text

if TYPE_CHECKING:
    from weft.delivery.edges.edge import EdgeSettings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def edge(
    upstream: Annotated[
        str,
        typer.Argument(
            metavar="UPSTREAM",
            help="Where rows come from: nats://host:port/project, weft://host:port (an edge), or a delivery directory.",
        ),
    ],
    state: Annotated[Path, typer.Option("--state", metavar="DIR", help="Where the edge keeps what it has taken.")],
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 7070,
    host: Annotated[str, typer.Option(help="The address to listen on; only this machine unless given.")] = "127.0.0.1",
    access: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The grants (access.json of a project) that users' tokens are in; that of a delivery directory if "
            "left out.",
        ),
    ] = None,
    token: TokenOption = None,
    linger: Annotated[
        float, typer.Option(help="Seconds for which rows are taken after a query's last user left.")
    ] = 600,
) -> None:
    """Take rows once over one link, and serve many users with them. Edges can take their rows from edges."""
    with delivering_clearly(as_json=False):
        from weft.delivery.edges.edge import EdgeSettings

        asyncio.run(_serve(EdgeSettings(upstream, state, host, port, access, token, linger)))


async def _serve(settings: EdgeSettings) -> None:
    from weft.delivery.edges.edge import Edge

    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    edge = Edge(settings, say=lambda sentence: typer.echo(f"weft: {sentence}", err=True))
    try:
        if settings.host not in _LOOPBACK:
            guard = "users need tokens" if edge.needs_tokens else "nobody needs a token: give --access to change that"
            typer.echo(f"weft: this edge can be reached from other machines, unencrypted; {guard}", err=True)
        port = await edge.start()
        print_text(f"listening on weft://{settings.host}:{port}")
        await ending.wait()
    finally:
        await edge.close()
