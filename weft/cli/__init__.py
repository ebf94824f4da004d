"""The command line: one module per group of commands; `output` has what they share.

Exit codes: 0 all is well, 1 the SQL has problems, 2 the command could not be carried out, 3 a query is in error.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from weft.cli import federation, projects, reports, run, subscribers

app = typer.Typer(
    name="weft",
    help="Many continuous SQL queries, one Spark pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    *(projects.init, projects.check, projects.register, projects.drop, projects.queries, reports.explain, run.run),
    *(reports.results, reports.status, subscribers.tail, subscribers.edge, subscribers.token, run.demo, run.warm_up),
    *(federation.provider, federation.coordinator),
):
    app.command()(command)
app.add_typer(federation.federation, name="federation")


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
