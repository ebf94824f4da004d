"""`weft results`: the newest answers of a query."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.delivery import delivering_clearly
from weft.cli.output import Failure, JsonOption, ProjectOption, open_project, print_table, print_text
from weft.sql.errors import did_you_mean


def results(
    query: Annotated[str, typer.Argument(help="The query's name.")],
    project: ProjectOption = Path(),
    last: Annotated[int, typer.Option(help="How many of the newest answers.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the newest answers of a query; with --json, one JSON object per line."""
    from weft.runtime.sinks.kept import kept_by, sentences
    from weft.runtime.sinks.results import DamagedAnswers

    with delivering_clearly(as_json):
        with open_project(project, write=False) as loom:
            found = loom.catalog.find_query(query)
            if found is None:
                hint = did_you_mean(query, [each.name for each in loom.catalog.queries()], "weft queries lists them")
                raise Failure(f"query '{query}' is unknown; {hint}")
            with warnings.catch_warnings(record=True) as damages:
                warnings.simplefilter("always", DamagedAnswers)
                answers = loom.results(found.name)
        for each in damages:
            typer.echo(f"weft: {each.message}", err=True)

        shown = answers.slice(max(0, answers.num_rows - last))
        if as_json:
            from weft.runtime.sinks.sinks import json_lines

            typer.echo(json_lines(shown).decode(), nl=False)
            for sentence in sentences(kept_by(answers)):
                typer.echo(sentence, err=True)
            return
        rows = [[_text(value) for value in row.values()] for row in shown.to_pylist()]
        print_table(answers.column_names, rows)
        print_text(f"the last {shown.num_rows} of {answers.num_rows:,} answers")
        for sentence in sentences(kept_by(answers)):
            print_text(sentence)


def _text(value: object) -> str:
    return "" if value is None else str(value).removesuffix("+00:00")
