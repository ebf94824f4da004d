"""Which commands there are."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from weft.cli.federation import coordinator, federation, provider
from weft.cli.projects import check, drop, init, queries, register
from weft.cli.reports import explain, results, status
from weft.cli.run import demo, run, warm_up
from weft.cli.subscribers import edge, tail, token

app = typer.Typer(
    name="weft",
    help="Many continuous SQL queries, one Spark pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (init, check, register, drop, queries, explain, run, results, status, tail, edge, token, demo, warm_up):
    app.command()(command)
app.command()(provider)
app.command()(coordinator)
app.add_typer(federation, name="federation")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weft {version('weft')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Many continuous SQL queries, one Spark pipeline."""


def main() -> None:
    """What the `weft` command runs."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks, not a traceback
    app()
