"""Which commands there are."""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from weft.cli.check import check
from weft.cli.coordinator import coordinator
from weft.cli.demo import demo
from weft.cli.drop import drop
from weft.cli.edge import edge
from weft.cli.explain import explain
from weft.cli.federation import federation
from weft.cli.init import init
from weft.cli.provider import provider
from weft.cli.queries import queries
from weft.cli.register import register
from weft.cli.results import results
from weft.cli.run import run
from weft.cli.status import status
from weft.cli.tail import tail
from weft.cli.token import token
from weft.cli.warm_up import warm_up

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
