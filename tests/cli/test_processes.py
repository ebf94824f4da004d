"""The command as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.golden import FIXTURES

_ROOT = Path(__file__).parents[2]


def _run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", *map(str, arguments)],
        cwd=_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_a_project_from_nothing(tmp_path: Path) -> None:
    project = tmp_path / "project"
    app = project / "app.sql"
    for arguments in (("init", project), ("check", app), ("register", app, "--project", project)):
        assert _run(*arguments).returncode == 0
    explained = _run("explain", "per_minute", "--project", project)
    assert explained.returncode == 0
    assert explained.stdout.startswith("query per_minute: ")


def test_explaining_needs_no_java() -> None:
    example = _ROOT / "examples" / "flights.sql"
    explained = _run("explain", "--file", example, PATH="", JAVA_HOME=str(_ROOT / "there-is-no-java-here"))
    assert explained.returncode == 0, explained.stderr
    assert " woven, " in explained.stdout


def test_checking_imports_no_spark() -> None:
    code = (
        "import sys\n"
        "from weft.cli import main\n"
        f"sys.argv = ['weft', 'check', {str(_ROOT / 'examples' / 'flights.sql')!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "heavy = {'pyspark', 'py4j', 'pandas', 'pyarrow'} & {name.partition('.')[0] for name in sys.modules}\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "0 problems" in result.stdout


def test_a_terminal_without_unicode_gets_no_traceback() -> None:
    result = _run("check", FIXTURES / "twenty_mistakes.sql", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert result.returncode == 1
    assert result.stderr == ""
    assert result.stdout.count("error[W") == 20


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    result = _run("check", tmp_path / "missing.sql")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("weft: ")


def test_two_processes_that_register_wait_for_each_other(tmp_path: Path) -> None:
    assert _run("init", tmp_path).returncode == 0
    script = tmp_path / "many.sql"
    stream = "CREATE STREAM s (ts TIMESTAMP, x INT) WATERMARK FOR ts AS ts USING json;\n"
    queries = [f"CREATE CONTINUOUS QUERY q{i} AS SELECT x FROM s WHERE x > {i};\n" for i in range(300)]
    script.write_text(stream + "".join(queries), encoding="utf-8")
    command = [sys.executable, "-m", "weft", "register", str(script), "--project", str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = [(process.communicate(), process.returncode) for process in processes]
    assert [(code, stderr) for (_, stderr), code in outcomes] == [(0, "")] * 2
    said = sorted(stdout.splitlines()[0] for (stdout, _), _ in outcomes)
    assert said == ["s is registered already", "stream s created"]
    assert _run("queries", "--project", tmp_path).stdout.count("\n") == 301
