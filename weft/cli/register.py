"""`weft register`: a file of SQL into a project's catalog."""

from __future__ import annotations

from pathlib import Path

import typer

from weft.cli.check import report_document
from weft.cli.output import (
    PROBLEMS,
    JsonOption,
    ProjectOption,
    ScriptArgument,
    failing_clearly,
    open_project,
    print_json,
    print_report,
    print_table,
    print_text,
    read_script,
)
from weft.loom import Outcome
from weft.sql.check import check


def register(file: ScriptArgument, project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """Register the streams, views and queries of a file: all of them, or none if one has a problem."""
    with failing_clearly(as_json):
        script = read_script(file)
        with open_project(project, write=True) as loom:
            report = check(script, loom.catalog)
            outcomes: list[Outcome] = []
            if report.ok:
                with loom.catalog.transaction():
                    outcomes = loom.execute(script)
    if as_json:
        results = [{"message": each.message, "columns": each.columns, "rows": each.rows} for each in outcomes]
        print_json({**report_document(report, script, str(file)), "outcomes": results})
    elif report.ok:
        _print_outcomes(outcomes)
    else:
        print_report(report, script, str(file))
        print_text("nothing was registered")
    if not report.ok:
        raise typer.Exit(PROBLEMS)


def _print_outcomes(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        print_text(outcome.message)
        if outcome.columns:
            print_table(outcome.columns, outcome.rows)
