"""`weft queries`: what a project has registered."""

from __future__ import annotations

from pathlib import Path

from weft.algebra import Query
from weft.algebra.sources import leaves, name_of
from weft.cli.output import (
    JsonOption,
    ProjectOption,
    failing_clearly,
    open_project,
    print_json,
    print_table,
    print_text,
)
from weft.explain.json import query_document
from weft.plan.text import window_text


def queries(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """List the continuous queries of a project."""
    with failing_clearly(as_json), open_project(project, write=False) as loom:
        registered = loom.catalog.queries()
        errors = loom.errors()
    if as_json:
        print_json(
            [{**query_document(each), "reads": _reads(each), "error": errors.get(each.name)} for each in registered]
        )
    elif registered:
        rows = [
            (
                each.name,
                "error" if each.name in errors else "good",
                _window(each),
                ", ".join(_reads(each)),
                _columns(each),
            )
            for each in registered
        ]
        print_table(("query", "state", "window", "reads", "columns"), rows)
        for name, sentence in errors.items():
            print_text(f"query {name} is in error: {sentence}")
    else:
        print_text("no queries yet; register a file with: weft register app.sql")


def _window(query: Query) -> str:
    window = query.relation.window
    return "-" if window is None else window_text(window, query.relation.clock_type)


def _reads(query: Query) -> list[str]:
    return list(dict.fromkeys(name_of(leaf) for leaf in leaves(query.relation)))


def _columns(query: Query) -> str:
    return ", ".join(field.name for field in query.relation.fields)
