"""`weft drop`: take away what is registered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.catalog import Catalog
from weft.cli.output import (
    SITE_FILE,
    Failure,
    JsonOption,
    ProjectOption,
    failing_clearly,
    open_project,
    print_json,
    print_outcomes,
)
from weft.cli.register import registered_in_federation
from weft.loom import change
from weft.sql.errors import did_you_mean


def drop(
    name: Annotated[str, typer.Argument(help="The name of a query, stream, table or view.")],
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Drop a query, stream, table or view. The project may be running."""
    with failing_clearly(as_json):
        quoted = "`" + name.replace("`", "``") + "`"
        if (project / SITE_FILE).exists():
            done = registered_in_federation(f"DROP {_kind_in_federation(project, name)} {quoted}", project, as_json)
        else:
            with open_project(project, write=False) as loom:
                kind = _kind(loom.catalog, name)
            done = change(project, f"DROP {kind} {quoted}")
        if not done.ok:
            problem = done.problems[0]
            raise Failure(f"{problem.message}; {problem.hint}")
    if as_json:
        print_json({"ok": True, "dropped": name})
    else:
        print_outcomes(done.outcomes)


def _kind_in_federation(site: Path, name: str) -> str:
    from weft.cli.federation import ask, federating_clearly

    with federating_clearly(as_json=False):
        found = ask("status", None, site)["status"]
    for kind, listed in (("CONTINUOUS QUERY", found["queries"]), ("STREAM", found["streams"])):
        if name.lower() in {each["name"].lower() for each in listed}:
            return kind
    return "VIEW"


def _kind(catalog: Catalog, name: str) -> str:
    found = {
        "CONTINUOUS QUERY": catalog.find_query(name),
        "STREAM": catalog.find_stream(name),
        "TABLE": catalog.find_table(name),
        "VIEW": catalog.find_view(name),
    }
    for kind, definition in found.items():
        if definition is not None:
            return kind
    hint = did_you_mean(name, catalog.known_names(), "weft queries lists the queries")
    raise Failure(f"nothing is called '{name}'; {hint}")
