"""What the commands share: options, reading files, printing, and failing in one sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.algebra.secrets import WeftError, shown
from weft.catalog import CATALOG_FILE
from weft.catalog.database import refuse_lost
from weft.loom import Loom, Outcome, Registration
from weft.sql import Problem
from weft.sql.check import CheckReport

#: What the directory of a federation's site has in it: see `weft/federation/live/site_directory.py`.
SITE_FILE = "federation.json"

#: Exit codes besides 0.
PROBLEMS = 1
FAILURE = 2
IN_ERROR = 3

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
ProjectOption = Annotated[Path, typer.Option("--project", metavar="DIR", help="The project's directory.")]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark master; local[*] unless given.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="spark.x=y", help="A setting of Spark; repeatable.")
]
ScriptArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A file of SQL statements; - reads from stdin.")]


#: What a check of a script found, or a registration.
Findings: TypeAlias = CheckReport | Registration


class CommandFailure(WeftError):
    """The command cannot be carried out."""


@contextmanager
def reporting_failures(as_json: bool = False) -> Iterator[None]:
    """Turn failures inside into one sentence on stderr (or a JSON document) and the exit code for failures."""
    try:
        yield
    except (WeftError, OSError) as failure:
        sentence = shown(_sentence(failure) if isinstance(failure, OSError) else str(failure))
        if as_json:
            print_json({"ok": False, "error": sentence})
        else:
            Console(stderr=True, soft_wrap=True, highlight=False).print(Text(f"weft: {sentence}", style="red"))
        raise typer.Exit(FAILURE) from None


def _sentence(error: OSError) -> str:
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"{error.filename}: {said}"


def read_script(path: Path) -> str:
    """The text of a SQL file. Raises CommandFailure."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise CommandFailure(f"{path} does not exist; give the path of a file of SQL statements") from None
    except IsADirectoryError:
        raise CommandFailure(f"{path} is a directory; give the path of a file of SQL statements") from None
    except UnicodeDecodeError as error:
        raise CommandFailure(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (OSError, ValueError) as error:
        raise CommandFailure(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def open_project(directory: Path, *, write: bool) -> Loom:
    """The project in a directory, which may be that of a federation's provider. Raises CommandFailure if there is none.

    A site that runs no queries has none.
    """
    if (directory / SITE_FILE).exists():
        from weft.federation.live.site_directory import engine_project

        found = engine_project(directory)
        if found is None:
            raise CommandFailure(
                f"{directory} is the directory of a site that runs no queries; see what the federation does with: "
                f"weft federation status --project {directory}"
            )
        directory = found
    require_project(directory)
    return Loom.open(directory, write=write)


def require_project(directory: Path) -> None:
    """Raises CommandFailure if there is no project in a directory."""
    if not (directory / CATALOG_FILE).exists():
        refuse_lost(directory / CATALOG_FILE)
        raise CommandFailure(f"there is no project in {directory}; create one with: weft init {directory}")


# -- printing ---------------------------------------------------------------------------------------------------------


def stdout() -> Console:
    """Where answers go: in colour on a terminal, plain and never wrapped elsewhere."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=10_000, no_color=True)


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_text(text: str) -> None:
    stdout().print(Text(text), soft_wrap=True)


def value_text(value: object, null: str = "") -> str:
    """A value of an answer, for people."""
    return null if value is None else str(value).removesuffix("+00:00")


def print_either(as_json: bool, document: Any, *lines: str) -> None:
    """Print a document for machines, or lines for people."""
    if as_json:
        print_json(document)
    else:
        print_text("\n".join(lines))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without lines around it, as wide as it needs to be."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    stdout().print(table)


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """What statements did, with their tables."""
    for outcome in outcomes:
        print_text(outcome.message)
        if outcome.columns:
            print_table(outcome.columns, outcome.rows)


def print_report(report: Findings, script: str, file: Path) -> None:
    """Every problem and note with its line and caret, and a line that counts."""
    console = stdout()
    for problem in (*report.problems, *report.notes):
        text = Text(problem.render(script, str(file)))
        text.highlight_regex(r"\Aerror\[W\d+\]", "bold red")
        text.highlight_regex(r"\Anote\[W\d+\]", "bold yellow")
        text.highlight_regex(r"(?m)^ *\d* \||^ *-->", "blue")
        text.highlight_regex(r"\^+.*\Z", "red")
        console.print(text, soft_wrap=True)
        console.print()
    good, problems, notes = report.good_count, len(report.problems), len(report.notes)
    counted = f"{good} statement{'s' * (good != 1)} good, {problems} problem{'s' * (problems != 1)}"
    counted += f", {report.skipped} skipped" + f", {notes} note{'s' * (notes != 1)}" * (notes > 0)
    console.print(Text(counted, style="green" if report.ok else "red"))


def show_report(report: Findings, script: str, file: Path, as_json: bool) -> None:
    """What a check found, for people or machines. The command ends here if there are problems."""
    if as_json:
        print_json(report_document(report, script, file))
    else:
        print_report(report, script, file)
    if not report.ok:
        raise typer.Exit(PROBLEMS)


def report_document(report: Findings, script: str, file: Path) -> dict[str, Any]:
    """What a check found, for machines."""
    return {
        "ok": report.ok,
        "file": str(file),
        "good": report.good_count,
        "skipped": report.skipped,
        "problems": problem_documents(report.problems, script),
        "notes": problem_documents(report.notes, script),
    }


def problem_documents(problems: Sequence[Problem], script: str) -> list[dict[str, Any]]:
    """Problems for machines: lines and columns count from 1, `start` and `end` are offsets into the file."""
    placed = ((each, *each.line_and_column(script)) for each in problems)
    return [
        {
            "code": each.code.value,
            "message": each.message,
            "hint": each.hint,
            "line": line,
            "column": column,
            "start": each.span.start,
            "end": each.span.end,
        }
        for each, line, column in placed
    ]
