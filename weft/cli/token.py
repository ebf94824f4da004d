"""`weft token`: who may take which answers of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.delivery import delivering_clearly, delivery_of
from weft.cli.output import Failure, JsonOption, ProjectOption, print_json, print_table, print_text

if TYPE_CHECKING:
    from weft.delivery.users.access import Access


def token(
    name: Annotated[str | None, typer.Argument(help="For whom; without it, who has a token is shown.")] = None,
    project: ProjectOption = Path(),
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="QUERY", help="A query, or a pattern like 'sales_*'; more than one if need be."),
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Make the token worthless.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a token that allows to take some queries' answers. Once there is one, nobody gets any without."""
    with delivering_clearly(as_json):
        from weft.delivery.users import access

        directory = delivery_of(project)
        if name is None:
            _list(access.Access.of(directory), as_json)
        elif revoke:
            access.revoke(directory, name)
            print_json({"revoked": name}) if as_json else print_text(f"the token of {name} is worthless now")
        elif not allow:
            raise Failure("say what the token allows: --allow QUERY, or --allow '*' for all")
        else:
            made = access.grant(directory, name, allow)
            print_json({"name": name, "token": made}) if as_json else print_text(made)


def _list(found: Access, as_json: bool) -> None:
    grants = found.grants or ()
    if as_json:
        print_json([{"name": each.name, "queries": list(each.queries)} for each in grants])
    elif found.grants is None:
        print_text("no token is needed: everyone who can reach the project may take its answers")
    else:
        print_table(("name", "queries"), [(each.name, ", ".join(each.queries)) for each in grants])
