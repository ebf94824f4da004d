"""The documents say what the code does: nothing missing, nothing invented, every example as it claims."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.sql import Code, durations
from weft.sql.binder import SINKS
from weft.sql.check import check
from weft.sql.dialect import TYPE_NAMES
from weft.sql.expression_binder import _SYNONYMS
from weft.sql.functions import AGGREGATES, FUNCTIONS
from weft.sql.settings import FIXED, SETTINGS

_ROOT = Path(__file__).parents[1]
_DOCUMENTS = sorted([*_ROOT.glob("*.md"), *(_ROOT / "docs").glob("*.md")])
_LANGUAGE = (_ROOT / "docs" / "language.md").read_text(encoding="utf-8")
_RUNNING = (_ROOT / "docs" / "running.md").read_text(encoding="utf-8")
_ERRORS = (_ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def _sql(text: str) -> list[str]:
    return re.findall(r"```sql\n(.*?)```", text, re.DOTALL)


def _section(title: str) -> str:
    return _LANGUAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_function_is_listed_and_every_listed_function_exists() -> None:
    listed = {name.lower() for name in re.findall(r"`([A-Z_0-9]+)\(", _section("Functions"))}
    assert listed == set(FUNCTIONS)


def test_every_aggregate_is_listed_and_every_listed_aggregate_exists() -> None:
    listed = {name.lower() for name in re.findall(r"`([A-Z_0-9]+)\(", _section("Aggregates"))}
    assert listed - {"percentile_cont"} == set(AGGREGATES)


def test_every_synonym_is_listed() -> None:
    tables = _section("Functions") + _section("Aggregates")
    assert [name for name in _SYNONYMS if f"`{name.upper()}`" not in tables and f"`{name.upper()}(" not in tables] == []


def test_types_units_settings_and_sinks_are_listed() -> None:
    assert TYPE_NAMES in _section("Types")
    assert durations.ADVICE.partition("units are ")[2] in _section("Windows")
    assert all(f"`{name}`" in _section("Statements") for name in (*SETTINGS, *SINKS))


def test_every_setting_of_spark_that_weft_fixes_is_listed_with_its_reason() -> None:
    section = _RUNNING.split("\n## Settings of Spark that weft fixes\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (.*) \|$", section, re.MULTILINE)
    listed = {(name.removesuffix("*"), reason) for names, reason in rows for name in re.findall(r"`(.*?)`", names)}
    assert listed == set(FIXED.items())


def test_every_error_code_is_explained_once() -> None:
    headings = re.findall(r"^### (W\d+) (\w+)$", _ERRORS, re.MULTILINE)
    assert headings == [(code.value, code.name) for code in Code]


@pytest.mark.parametrize("code", Code)
def test_the_example_of_an_error_code_gives_that_error(code: Code) -> None:
    given = _sql(_ERRORS)[0]
    entry = _ERRORS.split(f"\n### {code.value} ")[1].split("\n### ")[0]
    (example,) = _sql(entry)
    assert check(given).ok
    report = check(given + example)
    assert {problem.code for problem in (*report.problems, *report.notes)} == {code}
    assert report.ok == code.is_note


def test_the_examples_of_the_language_are_good() -> None:
    script = "\n".join(f"{block};" for block in _sql(_LANGUAGE))
    # The page drops at the end of its first example what later ones go on to use.
    script = re.sub(r"^DROP .*$", "", script, flags=re.MULTILINE)
    report = check(script)
    assert [problem.render(script) for problem in report.problems] == []
    assert len(report.queries) > 10


@pytest.mark.parametrize("path", ["README.md", "examples/flights.sql"])
def test_the_other_examples_are_good(path: str) -> None:
    text = (_ROOT / path).read_text(encoding="utf-8")
    script = "\n".join(_sql(text)) if path.endswith(".md") else text
    report = check(script)
    assert [problem.render(script) for problem in report.problems] == []
    assert report.queries


def test_the_readme_opens_with_five_lines_and_two_commands() -> None:
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    opening, commands = text.split("```")[:2]
    assert len([line for line in opening.splitlines()[1:] if line]) == 5
    assert [line.split("#")[0].strip() for line in commands.splitlines() if line] == ["make demo", "make test"]


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    missing = [each for each in targets if "://" not in each and not (path.parent / each).exists()]
    assert missing == []


def test_every_page_is_in_the_index() -> None:
    index = (_ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (_ROOT / "docs").glob("*.md")} - {"index.md"}
    assert [name for name in sorted(pages) if f"({name})" not in index] == []
