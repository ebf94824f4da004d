"""`weft register`: a file of SQL into a project's catalog."""

from __future__ import annotations

from pathlib import Path

import typer

from weft.cli.check import report_document
from weft.cli.output import (
    PROBLEMS,
    SITE_FILE,
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
        if (project / SITE_FILE).exists():
            _register_in_federation(script, project, as_json)
            return
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


def _register_in_federation(script: str, site: Path, as_json: bool) -> None:
    """Statements at a site of a federation: the coordinator says where queries run, and why."""
    from weft.cli.federation import ask, federating_clearly
    from weft.federation.live.place_file import find_membership

    with federating_clearly(as_json):
        known = find_membership(site)
        assert known is not None
        said = ask("statement", known.address, site, at=known.site, text=script)["said"]
    if as_json:
        print_json({"ok": True, "said": said})
    else:
        print_text("\n".join(said))


def _print_outcomes(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        print_text(outcome.message)
        if outcome.columns:
            print_table(outcome.columns, outcome.rows)
