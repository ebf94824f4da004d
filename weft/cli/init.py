"""`weft init`: a new project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.catalog import CATALOG_FILE, Catalog
from weft.cli.output import Failure, JsonOption, failing_clearly, print_json, print_text
from weft.loom import Loom

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
    as_json: JsonOption = False,
) -> None:
    """Create a project: a catalog, and an app.sql to start from. With --allow, limit what its statements may name."""
    if recover:
        _recover(directory, as_json)
        return
    created = []
    with failing_clearly(as_json):
        if directory.exists() and not directory.is_dir():
            raise Failure(f"{directory} is a file; give a directory for the project")
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
    if as_json:
        print_json({"ok": True, "project": str(directory), "created": created, "next": following})
        return
    for path in created:
        print_text(f"created {path}")
    if not created:
        print_text(f"{directory} is a project already")
    print_text("\nnext, edit " + str(script) + " and run:\n  " + "\n  ".join(following))


def _recover(directory: Path, as_json: bool) -> None:
    with failing_clearly(as_json):
        if not directory.is_dir():
            raise Failure(f"{directory} is not a directory; give that of the project")
        replaced = Catalog.recover(directory)
        with Catalog.open(directory) as catalog:
            queries = len(catalog.queries())
    if as_json:
        print_json({"ok": True, "project": str(directory), "queries": queries, "replaced": replaced and str(replaced)})
        return
    print_text(f"{directory / CATALOG_FILE} is back, with {queries:,} quer{'y' if queries == 1 else 'ies'}")
    if replaced is not None:
        print_text(f"the file that was there is now {replaced}")
