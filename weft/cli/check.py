"""`weft check`: every mistake in a file, without running anything."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.output import (
    PROBLEMS,
    Findings,
    JsonOption,
    ScriptArgument,
    failing_clearly,
    open_project,
    print_json,
    print_report,
    problem_document,
    read_script,
)
from weft.sql.check import check as check_script


def check(
    file: ScriptArgument,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="Check on top of what this project has registered.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a file of SQL: every problem with its line, without starting Spark."""
    with failing_clearly(as_json):
        script = read_script(file)
        with open_project(project, write=False) if project is not None else nullcontext() as loom:
            report = check_script(script, loom.catalog if loom is not None else None)
    if as_json:
        print_json(report_document(report, script, str(file)))
    else:
        print_report(report, script, str(file))
    if not report.ok:
        raise typer.Exit(PROBLEMS)


def report_document(report: Findings, script: str, file: str) -> dict[str, Any]:
    """What a check found, for machines."""
    return {
        "ok": report.ok,
        "file": file,
        "good": report.good_count,
        "skipped": report.skipped,
        "problems": [problem_document(problem, script) for problem in report.problems],
        "notes": [problem_document(note, script) for note in report.notes],
    }
