"""What is a secret is stored and used, and shown by nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.algebra.secrets import shown, shown_sql, shown_value
from weft.cli import app
from weft.loom import Loom
from weft.runtime.spark.engine_errors import SourceError

SECRETS = ("hunter2", "hunter3", "hunter4", "hunter5", "hunter6")

SCRIPT = """
SET broker = 'nats://usr:hunter2@host:4222';
SET spark.hadoop.fs.s3a.secret.key = hunter3;
SET `spark.hadoop.fs.s3a.access.key` = 'hunter3';
CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) WATERMARK FOR timestamp AS timestamp USING rate
  OPTIONS (rowsPerSecond 1, password 'hunter4', kafka.sasl.jaas.config 'x password="hunter5";');
CREATE TABLE t (a STRING) USING jdbc OPTIONS (url 'jdbc:postgresql://u:hunter4@db/x?password=hunter5', dbtable 't');
CREATE TABLE f (a STRING) USING csv OPTIONS (path 's3a://id:hunter6@bucket/f');
CREATE CONTINUOUS QUERY q INTO json OPTIONS (path 's3a://id:hunter6@bucket/q') AS SELECT value FROM s;
SHOW SETTINGS; SHOW TABLES; SHOW QUERIES; SHOW STREAMS; DESCRIBE s; DESCRIBE t; DESCRIBE q;
EXPLAIN QUERY q; EXPLAIN (FORMAT JSON) QUERY q; EXPLAIN SHARED
"""

WRONG = """
CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) OPTIONS (password 'hunter4', x "hunter
5" oops, token 'hunter6');
SET spark.password = 'hunter2' FROM;
CREATE STREAM z (n BIGINT) WATERMARK FOR m AS m USING jdbc OPTIONS (url 'jdbc:x://u:hunter3@h', key 'hunter4');
"""


def hidden(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


def test_no_statement_and_no_command_shows_a_secret(tmp_path: Path) -> None:
    project, script = tmp_path / "project", tmp_path / "app.sql"
    with Loom.open(project) as loom:
        outcomes = loom.execute(SCRIPT)
        assert loom.catalog.setting("broker") == "nats://usr:hunter2@host:4222"
        assert loom.catalog.setting("spark.hadoop.fs.s3a.secret.key") == "hunter3"
    assert hidden(repr(outcomes))
    assert "broker = nats://***@host:4222" in {each.message for each in outcomes}
    script.write_text(SCRIPT)
    for arguments in (
        ["register", str(script)],
        ["register", str(script), "--json"],
        ["queries"],
        ["queries", "--json"],
        ["status", "--json"],
        ["explain", "--json"],
        ["explain", "--format", "svg"],
    ):
        result = CliRunner().invoke(app, [*arguments, "--project", str(project)])
        assert result.exit_code == 0, result.output
        assert hidden(result.output)
        if "--json" in arguments:
            json.loads(result.output)


def test_no_message_about_a_mistake_shows_a_secret(tmp_path: Path) -> None:
    script = tmp_path / "app.sql"
    script.write_text(WRONG)
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["check", str(script), *options])
        assert result.exit_code == 1
        assert hidden(result.output)


def test_carets_stay_where_they_are() -> None:
    text = "SET a.token = 'abc'; CREATE STREAM s (n INT) USING x OPTIONS (key '1''2', path 'p', u 'a://b:c@d')"
    veiled = "SET a.token = '***'; CREATE STREAM s (n INT) USING x OPTIONS (key '****', path 'p', u 'a://***@d')"
    assert shown_sql(text) == veiled
    assert shown_sql("SELECT key, 'token' AS t FROM s WHERE key = 'abc'") == (
        "SELECT key, 'token' AS t FROM s WHERE key = 'abc'"
    )


@pytest.mark.parametrize(
    ("text", "as_shown"),
    [
        ("nats://user:pa/ss@w@host:1/project", "nats://***@host:1/project"),
        ("nats://token@host", "nats://***@host"),
        ("jdbc:sqlserver://h;user=a;password=b c;x=1", "jdbc:sqlserver://h;user=a;password=*** c;x=1"),
        ("cannot connect to https://h/p?sig_token=abc&x=1", "cannot connect to https://h/p?sig_token=***&x=1"),
        ("see https://example.org/a and mail me@example.org", "see https://example.org/a and mail me@example.org"),
    ],
)
def test_addresses_are_shown_without_what_opens_them(text: str, as_shown: str) -> None:
    assert shown(text) == as_shown
    assert shown(as_shown) == as_shown


def test_errors_of_the_engine_show_no_secret() -> None:
    assert str(SourceError("stream 's' cannot be read: jdbc:x://u:p@h refused")) == (
        "stream 's' cannot be read: jdbc:x://***@h refused"
    )
    assert shown_value("spark.sql.shuffle.partitions", "4") == "4"
