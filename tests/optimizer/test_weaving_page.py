"""`docs/weaving.md` says what the code does."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from lab.weaving.costings import by_overlap
from lab.weaving.plans import Levels, plan_of
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq

PAGE = (Path(__file__).parents[2] / "docs" / "weaving.md").read_text(encoding="utf-8")
WINDOWS = {"a": Window(16, 4), "b": Window(10, 5), "c": Window(8, 4)}


def test_the_python_on_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/weaving.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", code)


def test_the_table_of_the_example_is_right() -> None:
    rows = re.findall(r"^\| \**(\{.*?\})\** \|.*\| \**([\d.]+)\** \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for trees, cost in rows:
        parts = [[Acq(WINDOWS[name]) for name in tree.split(", ")] for tree in re.findall(r"\{(.*?)\}", trees)]
        assert plan_of(parts, Fraction(6, 5), Levels.TWO, by_overlap()).cost == Fraction(cost)


def test_every_file_that_the_page_names_is_there() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`((?:weft|bench)/[\w/]+(?:\.py)?)`", PAGE)
    assert named
    assert [name for name in named if not (root / name).exists()] == []
