"""`docs/sharing.md` says what the code does."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "sharing.md").read_text(encoding="utf-8")


BLOCKS = dict(re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


def test_the_example_gives_the_network_on_the_page() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(BLOCKS["python"], "docs/sharing.md", "exec"), {"SCRIPT": BLOCKS["sql"]})
    assert printed.getvalue() == BLOCKS[""]


def test_conditions_in_the_table_are_those_of_the_network() -> None:
    rows = re.findall(r"^\|.*\| `([^`]*)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    assert all(condition in BLOCKS[""] for condition in rows)
