"""What is printed shows names and values as they are: brackets in them are no marks for the terminal."""

from __future__ import annotations

import pyarrow as pa
import pytest

from weft.cli.output import print_table
from weft.runtime.sinks.sinks import print_answers


def test_the_console_shows_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"[bold]c[/bold]": ["[red]x[/red]", "[/]", None]})
    print_answers("[link=a]q[/link]", table, 7)
    # A title that is wider than its table is wrapped.
    shown = "".join(capsys.readouterr().out.split())
    assert all(each in shown for each in ("[link=a]q[/link],cycle7", "[bold]c[/bold]", "[red]x[/red]", "[/]"))


def test_a_table_shows_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["[b]c[/b]"], [["[i]v[/i]"]])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["[b]c[/b]", "[i]v[/i]"]
