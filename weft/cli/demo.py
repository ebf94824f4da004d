"""`weft demo`: the example of the README."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weft.cli.output import Failure, JsonOption, failing_clearly, print_json, stdout


def demo(
    folder: Annotated[Path, typer.Option(help="Where its data and state go.")] = Path("build/demo"),
    queries: Annotated[int | None, typer.Option(help="How many queries; all 300 unless given.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master; local[*] unless given.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a year of flights and weather under many queries, and show the answers and what they cost."""
    from weft.demo.data import NoData
    from weft.demo.queries import ALL
    from weft.demo.show import run
    from weft.runtime.failures.errors import EngineError

    count = ALL if queries is None else queries
    with failing_clearly(as_json):
        try:
            totals = run(folder, Console(quiet=True) if as_json else stdout(), count=count, master=master)
        except (NoData, EngineError) as error:
            raise Failure(str(error)) from None
    if as_json:
        print_json({"ok": True, "queries": count, **asdict(totals)})
