"""`weft init`, `check`, `register`, `drop` and `queries`: what a project has registered."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from weft.algebra.properties import leaves, name_of
from weft.catalog import CATALOG_FILE, Catalog
from weft.cli import output
from weft.explain.query_text import count, query_document
from weft.loom import Loom, Registration, change
from weft.loom.inspection import window_of
from weft.sql.binder import kind_of
from weft.sql.check import check as check_script
from weft.sql.problems import did_you_mean

#: What a new project's `app.sql` says. It needs no data: Spark's rate source makes rows by itself.
STARTER = """\
-- A stream: where rows come from, which column is their clock, and how late they may be.
-- Spark's rate source makes rows by itself. To read files, write for example
--   USING parquet OPTIONS (path 'data/ticks')
CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT)
WATERMARK FOR timestamp AS timestamp - INTERVAL 1 SECOND
USING rate OPTIONS (rowsPerSecond 10);

-- A continuous query: one answer for every window, as soon as the window is over.
CREATE CONTINUOUS QUERY per_minute AS
SELECT COUNT(*) AS ticks, MAX(value) AS newest
FROM ticks [RANGE 1 MINUTE SLIDE 10 SECONDS];

-- Other queries over the same stream share its work.
CREATE CONTINUOUS QUERY last_digits AS
SELECT value % 10 AS digit, COUNT(*) AS ticks
FROM ticks [RANGE 2 MINUTES SLIDE 20 SECONDS]
GROUP BY value % 10;
"""


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the project lives.")] = Path(),
    recover: Annotated[
        bool, typer.Option("--recover", help="Bring a lost or old catalog back from the copy that the state keeps.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", help="Let statements read and write files in this folder alone; repeatable."),
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Create a project: a catalog, and an app.sql to start from. With --allow, limit what its statements may name."""
    if recover:
        _recover(directory, as_json)
        return
    created = []
    with output.reporting_failures(as_json):
        if directory.exists() and not directory.is_dir():
            raise output.CommandFailure(f"{directory} is a file; give a directory for the project")
        catalog, script = directory / CATALOG_FILE, directory / "app.sql"
        if not catalog.exists():
            created.append(str(catalog))
        with Loom.open(directory) as loom:
            if allow:
                loom.catalog.allow_paths(allow)
        if not script.exists():
            script.write_text(STARTER, encoding="utf-8")
            created.append(str(script))
    option = "" if directory == Path() else f" --project {directory}"
    following = [f"weft check {script}", f"weft register {script}{option}", f"weft explain{option}"]
    lines = [f"created {path}" for path in created] or [f"{directory} is a project already"]
    lines += ["", f"next, edit {script} and run:", *(f"  {command}" for command in following)]
    output.print_either(as_json, {"ok": True, "project": str(directory), "created": created, "next": following}, *lines)


def _recover(directory: Path, as_json: bool) -> None:
    with output.reporting_failures(as_json):
        if not directory.is_dir():
            raise output.CommandFailure(f"{directory} is not a directory; give that of the project")
        replaced = Catalog.recover(directory)
        with Catalog.open(directory) as catalog:
            queries = len(catalog.queries())
    document = {"ok": True, "project": str(directory), "queries": queries, "replaced": replaced and str(replaced)}
    back = f"{directory / CATALOG_FILE} is back, with {count(queries, 'query', 'queries')}"
    moved = [] if replaced is None else [f"the file that was there is now {replaced}"]
    output.print_either(as_json, document, back, *moved)


def check(
    file: output.ScriptArgument,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="Check on top of what this project has registered.")
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Check a file of SQL: every problem with its line, without starting Spark."""
    with output.reporting_failures(as_json):
        script = output.read_script(file)
        with output.open_project(project, write=False) if project is not None else nullcontext() as loom:
            report = check_script(script, loom.catalog if loom is not None else None)
    output.show_report(report, script, file, as_json)


def register(
    file: output.ScriptArgument, project: output.ProjectOption = Path(), as_json: output.JsonOption = False
) -> None:
    """Run the statements of a file: all of them, or none if one has a problem. The project may be running."""
    with output.reporting_failures(as_json):
        script = output.read_script(file)
        report = _registered(script, project)
    _show(report, script, file, as_json)


def _registered(script: str, project: Path) -> Registration:
    if (project / output.SITE_FILE).exists():
        return registered_in_federation(script, project)
    output.require_project(project)
    return change(project, script)


def _show(report: Registration, script: str, file: Path, as_json: bool) -> None:
    if as_json:
        results = [{"message": each.message, "columns": each.columns, "rows": each.rows} for each in report.outcomes]
        output.print_json({**output.report_document(report, script, file), "outcomes": results})
    elif report.ok:
        output.print_outcomes(report.outcomes)
    else:
        output.print_report(report, script, file)
        output.print_text("nothing was registered")
    if not report.ok:
        raise typer.Exit(output.PROBLEMS)


def registered_in_federation(script: str, site: Path) -> Registration:
    """Carry out statements at a site of a federation. The coordinator says where queries run, and why."""
    from weft.cli.federation import ask
    from weft.federation.live.coordinator_requests import ScriptRefused
    from weft.federation.live.site_directory import find_membership

    known = find_membership(site)
    assert known is not None
    try:
        answer = ask("statement", known.address, site, at=known.site, text=script)
    except ScriptRefused as refused:
        return refused.registration
    return Registration.from_text(answer["registration"])


def drop(
    name: Annotated[str, typer.Argument(help="The name of a query, stream, table or view.")],
    project: output.ProjectOption = Path(),
    as_json: output.JsonOption = False,
) -> None:
    """Drop a query, stream, table or view. The project may be running."""
    with output.reporting_failures(as_json):
        kind = (_kind_in_federation if (project / output.SITE_FILE).exists() else _kind)(project, name)
        quoted = "`" + name.replace("`", "``") + "`"
        done = _registered(f"DROP {kind} {quoted}", project)
        if not done.ok:
            problem = done.problems[0]
            raise output.CommandFailure(f"{problem.message}; {problem.hint}")
    if as_json:
        output.print_json({"ok": True, "dropped": name})
    else:
        output.print_outcomes(done.outcomes)


def _kind_in_federation(site: Path, name: str) -> str:
    from weft.cli.federation import ask

    found = ask("status", None, site)["status"]
    for kind, listed in (("CONTINUOUS QUERY", found["queries"]), ("STREAM", found["streams"])):
        if name.lower() in {each["name"].lower() for each in listed}:
            return kind
    return "VIEW"


def _kind(project: Path, name: str) -> str:
    with output.open_project(project, write=False) as loom:
        kind, known = kind_of(name, loom.catalog), loom.catalog.known_names()
    if kind is not None:
        return "CONTINUOUS QUERY" if kind == "query" else kind.upper()
    hint = did_you_mean(name, known, "weft queries lists the queries")
    raise output.CommandFailure(f"nothing is called '{name}'; {hint}")


def queries(project: output.ProjectOption = Path(), as_json: output.JsonOption = False) -> None:
    """List the continuous queries of a project."""
    with output.reporting_failures(as_json), output.open_project(project, write=False) as loom:
        registered = loom.catalog.queries()
        errors = loom.errors()
    reads = {each.name: list(dict.fromkeys(map(name_of, leaves(each.relation)))) for each in registered}
    if as_json:
        output.print_json(
            [{**query_document(each), "reads": reads[each.name], "error": errors.get(each.name)} for each in registered]
        )
    elif registered:
        rows = []
        for each in registered:
            state, columns = "error" if each.name in errors else "good", (field.name for field in each.relation.fields)
            rows.append((each.name, state, window_of(each), ", ".join(reads[each.name]), ", ".join(columns)))
        output.print_table(("query", "state", "window", "reads", "columns"), rows)
        for name, sentence in errors.items():
            output.print_text(f"query {name} is in error: {sentence}")
    else:
        output.print_text("no queries yet; register a file with: weft register app.sql")
