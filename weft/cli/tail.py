"""`weft tail`: a query's answers as they come."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.delivery import TokenOption, delivering_clearly, delivery_of
from weft.cli.output import Failure, JsonOption, ProjectOption, print_text

if TYPE_CHECKING:
    from weft.delivery import Batch, Dropped


def tail(
    query: Annotated[str, typer.Argument(help="The query's name.")],
    project: ProjectOption = Path(),
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
    as_json: JsonOption = False,
) -> None:
    """Show a query's answers as they come; with --json, one JSON object per line. Ctrl-C ends it."""
    with delivering_clearly(as_json):
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
    """Print answers, at most so many; returns how many are still wanted."""
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
            print_text("  ".join(f"{name}={_text(value)}" for name, value in row.items()))
    return None if left is None else left - shown.num_rows


def _text(value: object) -> str:
    return "NULL" if value is None else str(value).removesuffix("+00:00")


def _clock(text: str | None) -> datetime | int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else _time(text)


def _time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"'{text}' is no time; write it as 2030-01-31 or 2030-01-31T12:00:00") from None
