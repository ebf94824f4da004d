"""`weft explain`: how queries are evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from weft.algebra import Query
from weft.cli.check import report_document
from weft.cli.output import (
    PROBLEMS,
    Failure,
    JsonOption,
    failing_clearly,
    open_project,
    print_json,
    print_report,
    print_text,
    read_script,
)
from weft.loom.inspection import explained
from weft.plan.sharing import Measured
from weft.sql.binder import EXPLAIN_FORMATS
from weft.sql.check import check
from weft.sql.errors import did_you_mean


def explain(
    query: Annotated[str | None, typer.Argument(help="A query's name; all of them if left out.")] = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="The project's directory (default: here).")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Explain the queries of a file, not of a project.")
    ] = None,
    as_json: JsonOption = False,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="text, json, mermaid, dot or svg (default: text).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to a file, not to the terminal.")
    ] = None,
) -> None:
    """Show how a query, or all of them, are evaluated, and what they share. Spark need not run."""
    if file is not None and project is not None:
        raise typer.BadParameter("give --project or --file, not both")
    format_ = _format(format_, as_json)
    as_json = format_ == "JSON"
    with failing_clearly(as_json):
        if file is not None:
            known = _queries_of_file(file, as_json)
            text = explained(known, _chosen(known, query), Measured(), format_)
        else:
            with open_project(project or Path(), write=False) as loom:
                chosen = _chosen(loom.catalog.queries(), query)
                text = loom.explain(chosen.name if chosen is not None else None, format=format_)
        if output is not None:
            output.write_text(f"{text}\n", encoding="utf-8")
    if output is not None:
        return
    if format_ == "TEXT":
        print_text(text)
    else:
        typer.echo(text)


def _format(named: str | None, as_json: bool) -> str:
    """What EXPLAIN calls the format that is asked for."""
    format_ = (named or ("json" if as_json else "text")).upper()
    if format_ not in EXPLAIN_FORMATS:
        listed = ", ".join(EXPLAIN_FORMATS).lower()
        raise typer.BadParameter(f"there is no format '{named}'; give one of {listed}")
    if as_json and format_ != "JSON":
        raise typer.BadParameter(f"give --json or --format {named}, not both")
    return format_


def _queries_of_file(file: Path, as_json: bool) -> Sequence[Query]:
    script = read_script(file)
    report = check(script)
    if not report.ok:
        if as_json:
            print_json(report_document(report, script, str(file)))
        else:
            print_report(report, script, str(file))
        raise typer.Exit(PROBLEMS)
    return report.queries


def _chosen(known: Sequence[Query], name: str | None) -> Query | None:
    """The query that is named; None if all of them are meant."""
    if name is None:
        return None
    for each in known:
        if each.name.lower() == name.lower():
            return each
    names = [each.name for each in known]
    advice = did_you_mean(name, names, f"there are {', '.join(names[:8])}" if names else "there are none yet")
    raise Failure(f"query '{name}' is unknown; {advice}")
