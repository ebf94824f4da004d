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
    print_json,
    print_outcomes,
    print_report,
    print_text,
    read_script,
    require_project,
)
from weft.loom import Registration, change


def register(file: ScriptArgument, project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """Run the statements of a file: all of them, or none if one has a problem. The project may be running."""
    with failing_clearly(as_json):
        script = read_script(file)
        if (project / SITE_FILE).exists():
            _show(registered_in_federation(script, project, as_json), script, file, as_json)
            return
        require_project(project)
        report = change(project, script)
    _show(report, script, file, as_json)


def _show(report: Registration, script: str, file: Path, as_json: bool) -> None:
    if as_json:
        results = [{"message": each.message, "columns": each.columns, "rows": each.rows} for each in report.outcomes]
        print_json({**report_document(report, script, str(file)), "outcomes": results})
    elif report.ok:
        print_outcomes(report.outcomes)
    else:
        print_report(report, script, str(file))
        print_text("nothing was registered")
    if not report.ok:
        raise typer.Exit(PROBLEMS)


def registered_in_federation(script: str, site: Path, as_json: bool) -> Registration:
    """Carry out statements at a site of a federation. The coordinator says where queries run, and why."""
    from weft.cli.federation import ask, federating_clearly
    from weft.federation.live.place_file import find_membership
    from weft.federation.live.scripts import ScriptRefused

    with federating_clearly(as_json):
        known = find_membership(site)
        assert known is not None
        try:
            answer = ask("statement", known.address, site, at=known.site, text=script)
        except ScriptRefused as refused:
            return refused.registration
    return Registration.from_text(answer["registration"])
