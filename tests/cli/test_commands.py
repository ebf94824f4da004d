"""The commands, called in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.support.golden import FIXTURES
from weft import __version__
from weft.cli import app
from weft.loom import Loom
from weft.sql.check import check

GOOD = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)
WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING parquet OPTIONS (path 'data/trades');
CREATE CONTINUOUS QUERY hot AS
SELECT symbol, AVG(price) AS mean FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES] GROUP BY symbol;
CREATE CONTINUOUS QUERY dear AS SELECT ts, symbol FROM trades WHERE price > 100;
"""


def _weft(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def _json(*arguments: object, exit_code: int = 0) -> Any:
    result = _weft(*arguments, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.sql"
    path.write_text(GOOD, encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path, script: Path) -> Path:
    directory = tmp_path / "project"
    assert _weft("init", directory).exit_code == 0
    assert _weft("register", script, "--project", directory).exit_code == 0
    return directory


def test_version_and_help() -> None:
    assert _weft("--version").stdout == f"weft {__version__}\n"
    for command in ("init", "check", "register", "queries", "explain", "demo"):
        assert command in _weft("--help").stdout
        assert "--json" in _weft(command, "--help").stdout


# -- init -------------------------------------------------------------------------------------------------------------


def test_init_creates_a_project_whose_script_is_good(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "project"
    result = _weft("init", directory)
    assert result.exit_code == 0
    assert f"weft register {directory / 'app.sql'} --project {directory}" in result.stdout
    assert (directory / "catalog.sqlite").exists()
    starter = (directory / "app.sql").read_text(encoding="utf-8")
    assert check(starter).ok
    assert len(check(starter).queries) == 2
    assert _weft("register", directory / "app.sql", "--project", directory).exit_code == 0


def test_init_again_keeps_what_is_there(project: Path) -> None:
    (project / "app.sql").write_text("-- mine", encoding="utf-8")
    document = _json("init", project)
    assert document["created"] == []
    assert (project / "app.sql").read_text(encoding="utf-8") == "-- mine"
    assert len(_json("queries", "--project", project)) == 2
    assert "is a project already" in _weft("init", project).stdout


def test_init_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _json("init")["next"] == ["weft check app.sql", "weft register app.sql", "weft explain"]


def test_init_in_the_place_of_a_file(script: Path) -> None:
    result = _weft("init", script)
    assert result.exit_code == 2
    assert result.stderr == f"weft: {script} is a file; give a directory for the project\n"


# -- check ------------------------------------------------------------------------------------------------------------


def test_check_of_a_good_file(script: Path) -> None:
    result = _weft("check", script)
    assert result.exit_code == 0
    assert result.stdout == "3 statements good, 0 problems, 0 skipped\n"


def test_check_shows_every_problem_with_line_and_caret() -> None:
    path = FIXTURES / "twenty_mistakes.sql"
    result = _weft("check", path)
    assert result.exit_code == 1
    assert result.stdout.count("error[W") == 20
    assert result.stdout.endswith("3 statements good, 20 problems, 1 skipped\n")
    assert (
        "error[W201]: stream 'trade' is unknown\n"
        f" --> {path}:8:51\n"
        "  |\n"
        "8 | CREATE CONTINUOUS QUERY m01 AS SELECT symbol FROM trade;\n"
        "  |                                                   ^^^^^ did you mean 'trades'?\n"
    ) in result.stdout


def test_check_for_machines(script: Path) -> None:
    assert _json("check", script) == {
        "ok": True,
        "file": str(script),
        "good": 3,
        "skipped": 0,
        "problems": [],
        "notes": [],
    }
    script.write_text("DROP STREAM nothing", encoding="utf-8")
    assert _json("check", script, exit_code=1)["problems"] == [
        {
            "code": "W207",
            "message": "stream 'nothing' is unknown",
            "hint": "add IF EXISTS if that is all right",
            "line": 1,
            "column": 13,
            "start": 12,
            "end": 19,
        }
    ]


def test_check_from_stdin() -> None:
    assert _weft("check", "-", stdin=GOOD).stdout == "3 statements good, 0 problems, 0 skipped\n"


def test_check_on_top_of_a_project(project: Path, script: Path) -> None:
    more = script.with_name("more.sql")
    more.write_text("CREATE CONTINUOUS QUERY more AS SELECT symbol FROM hot", encoding="utf-8")
    assert _weft("check", more).exit_code == 1
    assert _weft("check", more, "--project", project).exit_code == 0
    assert _weft("check", script, "--project", project).exit_code == 0


def test_check_of_a_file_with_a_byte_order_mark(script: Path) -> None:
    script.write_text(GOOD, encoding="utf-8-sig")
    assert _weft("check", script).exit_code == 0


@pytest.mark.parametrize("command", ["check", "register"])
def test_files_that_cannot_be_read(command: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    _weft("init", project)
    garbled = tmp_path / "garbled.sql"
    garbled.write_bytes(b"SELECT '\xff'")
    sentences = {
        tmp_path / "missing.sql": "does not exist; give the path of a file of SQL statements",
        tmp_path: "is a directory; give the path of a file of SQL statements",
        garbled: "is not UTF-8 text (byte 8); save it as UTF-8",
    }
    for path, sentence in sentences.items():
        result = _weft(command, path, "--project", project)
        assert result.exit_code == 2
        assert result.stderr == f"weft: {path} {sentence}\n"
        assert _json(command, path, "--project", project, exit_code=2) == {"ok": False, "error": f"{path} {sentence}"}


def test_wrong_usage() -> None:
    assert _weft("check").exit_code == 2
    assert _weft("chek").exit_code == 2
    assert _weft("check", "--no-such-option").exit_code == 2


# -- register ---------------------------------------------------------------------------------------------------------


def test_register_and_again(project: Path, script: Path) -> None:
    result = _weft("register", script, "--project", project)
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{name} is registered already\n" for name in ("trades", "hot", "dear"))


def test_register_is_all_or_nothing(project: Path, script: Path) -> None:
    script.write_text(
        "CREATE VIEW v AS SELECT symbol FROM trades; DROP STREAM trades; SET shraing = on;", encoding="utf-8"
    )
    result = _weft("register", script, "--project", project)
    assert result.exit_code == 1
    assert result.stdout.count("error[") == 2
    assert result.stdout.endswith("nothing was registered\n")
    assert _json("register", script, "--project", project, exit_code=1)["outcomes"] == []
    with Loom.open(project, write=False) as loom:
        assert loom.catalog.views() == ()


def test_notes_are_shown_and_no_errors(project: Path, script: Path) -> None:
    script.write_text("CREATE CONTINUOUS QUERY sorted AS SELECT symbol FROM trades ORDER BY symbol;", encoding="utf-8")
    checked = _weft("check", script, "--project", project)
    assert checked.exit_code == 0
    assert checked.stdout.startswith("note[W801]: answers have no order: ORDER BY is left out\n")
    assert checked.stdout.endswith("1 statement good, 0 problems, 0 skipped, 1 note\n")
    registered = _json("register", script, "--project", project)
    assert [(note["code"], note["line"], note["column"]) for note in registered["notes"]] == [("W801", 1, 61)]
    assert registered["outcomes"][0]["message"] == "query sorted created; answers have no order: ORDER BY is left out"


def test_register_prints_tables(project: Path, script: Path) -> None:
    script.write_text("SHOW STREAMS; DESCRIBE hot;", encoding="utf-8")
    result = _weft("register", script, "--project", project)
    assert [line.split() for line in result.stdout.splitlines()[1:3]] == [
        ["stream", "format", "clock", "watermark", "delay"],
        ["trades", "parquet", "ts", "5", "SECONDS"],
    ]
    assert ["mean", "DOUBLE"] in [line.split() for line in result.stdout.splitlines()]
    shown, described = _json("register", script, "--project", project)["outcomes"]
    assert shown["rows"] == [["trades", "parquet", "ts", "5 SECONDS"]]
    assert ["mean", "DOUBLE"] in described["rows"]


def test_a_project_that_another_process_writes_to(project: Path, script: Path) -> None:
    with Loom.open(project):
        result = _weft("register", script, "--project", project)
        assert result.exit_code == 2
        assert f"{project} is open for writing by process" in result.stderr
        assert result.stderr.count("\n") == 1
        assert _weft("check", script, "--project", project).exit_code == 0
        assert _weft("queries", "--project", project).exit_code == 0


@pytest.mark.parametrize("arguments", [("queries",), ("explain",), ("register", "app.sql"), ("check", "app.sql")])
def test_where_there_is_no_project(arguments: tuple[str, ...], script: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    named = [str(script) if each == "app.sql" else each for each in arguments]
    result = _weft(*named, "--project", empty)
    assert result.exit_code == 2
    assert result.stderr == f"weft: there is no project in {empty}; create one with: weft init {empty}\n"
    assert list(empty.iterdir()) == []


def test_a_catalog_that_is_none(project: Path) -> None:
    (project / "catalog.sqlite").write_bytes(b"this is no database, whatever its name says" * 100)
    result = _weft("queries", "--project", project)
    assert result.exit_code == 2
    assert result.stderr.startswith("weft: ")
    assert "Traceback" not in result.output


# -- queries and explain ----------------------------------------------------------------------------------------------


def test_queries(project: Path) -> None:
    lines = _weft("queries", "--project", project).stdout.splitlines()
    assert lines[0].split() == ["query", "state", "window", "reads", "columns"]
    assert "hot" in lines[1]
    assert "[RANGE 1 HOUR SLIDE 5 MINUTES]" in lines[1]
    assert lines[2].split() == ["dear", "good", "-", "trades", "ts,", "symbol"]
    hot, dear = _json("queries", "--project", project)
    assert (hot["query"], hot["reads"], dear["query"], dear["clock"]) == ("hot", ["trades"], "dear", "ts")


def test_queries_of_an_empty_project(tmp_path: Path) -> None:
    _weft("init", tmp_path)
    assert _weft("queries", "--project", tmp_path).stdout.startswith("no queries yet")
    assert _json("queries", "--project", tmp_path) == []
    assert _weft("explain", "--project", tmp_path).stdout == "no queries\n"


def test_explain(project: Path, script: Path) -> None:
    everything = _weft("explain", "--project", project)
    assert everything.exit_code == 0
    assert _weft("explain", "--file", script).stdout == everything.stdout
    with Loom.open(project, write=False) as loom:
        assert everything.stdout == loom.explain() + "\n"
        assert _weft("explain", "HOT", "--project", project).stdout == loom.explain("hot") + "\n"
    (document,) = _json("explain", "hot", "--file", script)["queries"]
    assert document["relation"]["window"]["text"] == "[RANGE 1 HOUR SLIDE 5 MINUTES]"
    assert [each["query"] for each in _json("explain", "--project", project)["queries"]] == ["hot", "dear"]


def test_explain_says_what_is_shared_and_what_is_not(project: Path) -> None:
    text = _weft("explain", "--project", project).stdout
    assert "stream trades: 1 query woven" in text
    assert "\n  dear answered by node 2; looks at 100,000 rows instead of 100,000 alone\n" in text
    document = _json("explain", "--project", project)
    hot, dear = document["queries"]
    assert (hot["woven"]["stream"], hot["not_woven"]) == ("trades", None)
    assert (dear["woven"], dear["not_woven"]) == (None, "only aggregates share partials")
    assert document["streams"][0]["cohorts"][0]["trees"][0]["queries"] == ["hot"]
    with Loom.open(project, write=False) as loom:
        assert json.loads(loom.explain(format="JSON")) == document


def test_explain_knows_that_sharing_is_off(project: Path) -> None:
    with Loom.open(project) as loom:
        loom.execute("SET sharing = off")
    hot, dear = _json("explain", "--project", project)["queries"]
    assert (hot["not_woven"], dear["not_woven"]) == ("sharing is off", "only aggregates share partials")
    assert (hot["network"], dear["network"]) == (None, None)
    assert dear["not_networked"] == "sharing is off"
    text = _weft("explain", "--project", project).stdout
    assert "\nneither woven nor in the network\n  hot: sharing is off\n  dear: sharing is off\n" in text


def test_explain_asked_for_in_sql_gives_the_same(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "explain.sql"
    script.write_text("EXPLAIN SHARED; EXPLAIN (FORMAT JSON) QUERY hot;", encoding="utf-8")
    shared, hot = _json("register", script, "--project", project)["outcomes"]
    assert shared["message"] + "\n" == _weft("explain", "--project", project).stdout
    assert json.loads(hot["message"]) == _json("explain", "hot", "--project", project)


def test_explain_as_a_picture(project: Path, script: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    assert _weft("explain", "--file", script, "--format", "svg", "--output", picture).stdout == ""
    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert _weft("explain", "--project", project, "--format", "svg").stdout == picture.read_text(encoding="utf-8")
    assert _weft("explain", "--file", script, "--format", "Mermaid").stdout.startswith("flowchart LR\n")
    assert _weft("explain", "dear", "--file", script, "--format", "dot").stdout.startswith("digraph weft {\n")
    assert (
        _weft("explain", "--file", script, "--format", "json").stdout
        == _weft("explain", "--file", script, "--json").stdout
    )


def test_explain_has_no_other_formats(script: Path) -> None:
    result = _weft("explain", "--file", script, "--format", "xml")
    assert result.exit_code == 2
    assert "text, verbose, json, mermaid, dot, svg" in re.sub(r"[\s│]+", " ", result.output)
    assert _weft("explain", "--file", script, "--format", "dot", "--json").exit_code == 2


def test_explain_into_a_file_that_cannot_be_written(script: Path, tmp_path: Path) -> None:
    result = _weft("explain", "--file", script, "--output", tmp_path / "nowhere" / "plan.txt")
    assert result.exit_code == 2
    assert "No such file or directory" in result.output


def test_explain_what_is_not_there(project: Path, script: Path) -> None:
    for place in (("--project", project), ("--file", script)):
        result = _weft("explain", "hott", *place)
        assert result.exit_code == 2
        assert result.stderr == "weft: query 'hott' is unknown; did you mean 'hot'?\n"


def test_explain_takes_one_place(project: Path, script: Path) -> None:
    result = _weft("explain", "--project", project, "--file", script)
    assert result.exit_code == 2
    assert "not both" in result.output


def test_explain_a_file_with_problems() -> None:
    path = FIXTURES / "twenty_mistakes.sql"
    assert _weft("explain", "--file", path).stdout == _weft("check", path).stdout
    assert len(_json("explain", "--file", path, exit_code=1)["problems"]) == 20


def test_explain_leaves_out_what_the_file_drops_again(script: Path) -> None:
    script.write_text(GOOD + "DROP CONTINUOUS QUERY hot;", encoding="utf-8")
    assert [each["query"] for each in _json("explain", "--file", script)["queries"]] == ["dear"]


def test_nothing_is_wrapped_or_coloured_when_piped(script: Path) -> None:
    columns = ", ".join(f"price + {i} AS a_rather_long_name_{i}" for i in range(20))
    script.write_text(GOOD + f"CREATE CONTINUOUS QUERY wide AS SELECT {columns}, prise FROM trades;", encoding="utf-8")
    output = _weft("check", script).stdout
    assert "\x1b" not in output
    assert any(len(line) > 150 for line in output.splitlines())
    caret = next(line for line in output.splitlines() if "^" in line)
    source = next(line for line in output.splitlines() if " | " in line and "prise" in line)
    assert source[caret.index("^") :].startswith("prise")


def test_markup_in_the_file_is_text(script: Path) -> None:
    script.write_text("CREATE CONTINUOUS QUERY q AS SELECT '[bold]x[/bold]' AS a FROM trades [red]", encoding="utf-8")
    assert "'[bold]x[/bold]' AS a FROM trades [red]" in _weft("check", script).stdout
