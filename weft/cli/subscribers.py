"""`weft tail`, `edge` and `token`: answers for subscribers."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.catalog import CATALOG_FILE
from weft.cli import output

if TYPE_CHECKING:
    from weft.delivery import Batch, Dropped
    from weft.delivery.access import Access
    from weft.delivery.edge import EdgeSettings


TokenOption = Annotated[
    str | None, typer.Option("--token", envvar="WEFT_TOKEN", help="What allows you to take the answers.")
]


def delivery_of(project: Path) -> Path:
    """The delivery directory of a project, or of a federation's site. Raises CommandFailure if there is none."""
    from weft.delivery.delivery_log import delivery_directory

    if not (project / CATALOG_FILE).exists() and not (project / output.SITE_FILE).exists():
        raise output.CommandFailure(f"there is no project in {project}; create one with: weft init {project}")
    return delivery_directory(project)


def tail(
    query: Annotated[str, typer.Argument(help="The query's name.")],
    project: output.ProjectOption = Path(),
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="ADDRESS", help="An edge, weft://host:port, or nats://host:port/project."),
    ] = None,
    last: Annotated[int | None, typer.Option(help="Begin with so many of the newest answers.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin with what was published at a time, in UTC.")
    ] = None,
    since_clock: Annotated[
        str | None,
        typer.Option(metavar="CLOCK", help="Begin with answers whose own clock is at a time, or a number, or later."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", help="End after so many answers.")] = None,
    token: TokenOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show a query's answers as they come; with --json, one JSON object per line. Ctrl-C ends it."""
    with output.reporting_failures(as_json):
        from weft.delivery import subscribe

        place = source or delivery_of(project)
        with subscribe(
            place, query, last=last, since=_time(since), since_clock=_clock(since_clock), token=token
        ) as answers:
            left = count
            try:
                for item in answers:
                    left = _show(item, left, as_json)
                    if left is not None and left <= 0:
                        return
            except KeyboardInterrupt:
                return


def _show(item: Batch | Dropped, left: int | None, as_json: bool) -> int | None:
    """Print at most `left` answers; return how many are still wanted."""
    from weft.delivery import Dropped

    if isinstance(item, Dropped):
        first = 0 if item.after is None else item.after + 1
        count = "answers" if item.rows is None else f"{item.rows:,} answers"
        notice = f"{count} of cycles {first} to {item.until} were let go before they were taken"
        typer.echo(json.dumps({"dropped": notice}) if as_json else f"-- {notice}", err=not as_json)
        return left
    from weft.runtime.sinks.sinks import json_lines

    shown = item.table if left is None else item.table.slice(0, left)
    if as_json:
        typer.echo(json_lines(shown).decode(), nl=False)
    else:
        for row in shown.to_pylist():
            output.print_text("  ".join(f"{name}={output.value_text(value, 'NULL')}" for name, value in row.items()))
    return None if left is None else left - shown.num_rows


def _clock(text: str | None) -> datetime | int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else _time(text)


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise output.CommandFailure(f"'{text}' is no time; write it as 2030-01-31 or 2030-01-31T12:00:00") from None


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
    with output.reporting_failures():
        from weft.delivery.edge import EdgeSettings

        asyncio.run(_serve(EdgeSettings(upstream, state, host, port, access, token, linger)))


async def _serve(settings: EdgeSettings) -> None:
    from weft.delivery.edge import Edge

    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    edge = Edge(settings, say=lambda sentence: typer.echo(f"weft: {sentence}", err=True))
    try:
        if settings.host not in _LOOPBACK:
            guard = "users need tokens" if edge.needs_tokens else "nobody needs a token: give --access to change that"
            typer.echo(f"weft: this edge can be reached from other machines, unencrypted; {guard}", err=True)
        port = await edge.start()
        output.print_text(f"listening on weft://{settings.host}:{port}")
        await ending.wait()
    finally:
        await edge.close()


def token(
    name: Annotated[str | None, typer.Argument(help="For whom; without it, who has a token is shown.")] = None,
    project: output.ProjectOption = Path(),
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY", help="A query, or a pattern like 'sales_*'; more than one if need be."),
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Make the token worthless.")] = False,
    as_json: output.JsonOption = False,
) -> None:
    """Make a token that allows to take some queries' answers. Once there is one, answers need a token."""
    with output.reporting_failures(as_json):
        from weft.delivery import access

        directory = delivery_of(project)
        if name is None:
            _list(access.Access.read(directory / access.ACCESS), as_json)
        elif revoke:
            access.revoke(directory, name)
            output.print_either(as_json, {"revoked": name}, f"the token of {name} is worthless now")
        elif not allow:
            raise output.CommandFailure("say what the token allows: --allow QUERY, or --allow '*' for all")
        else:
            made = access.grant(directory, name, allow)
            output.print_either(as_json, {"name": name, "token": made}, made)


def _list(found: Access, as_json: bool) -> None:
    grants = found.grants or ()
    if as_json:
        output.print_json([{"name": each.name, "queries": list(each.queries)} for each in grants])
    elif found.grants is None:
        output.print_text("no token is needed: everyone who can reach the project may take its answers")
    else:
        output.print_table(("name", "queries"), [(each.name, ", ".join(each.queries)) for each in grants])
