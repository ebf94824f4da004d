"""Every command that the documents show is one that weft has; those of the README and of delivery are carried out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer._click.core import Command
from typer._click.exceptions import BadOptionUsage, MissingParameter

from tests.delivery.numbers import publish
from tests.support.documented_commands import DOCUMENTS, ROOT, Documented, documented
from tests.support.processes import NatsServer
from weft.catalog import Catalog
from weft.cli import app
from weft.delivery import Itinerary, Publisher, Span
from weft.delivery.delivery_log import delivery_directory
from weft.plan.subscription import Subscription

COMMANDS = [each for path in DOCUMENTS for each in documented(path)]
_PATIENCE = 120.0


def _command_of(words: tuple[str, ...]) -> tuple[Command, list[str]]:
    """The command that words begin with, and its arguments."""
    command, rest = typer.main.get_command(app), list(words)
    while rest and hasattr(command, "commands"):
        assert rest[0] in command.commands, f"there is no command 'weft {rest[0]}'"
        command = command.commands[rest.pop(0)]
    return command, rest


@pytest.mark.parametrize("each", COMMANDS, ids=str)
def test_what_a_document_shows_is_a_command_with_these_options(each: Documented) -> None:
    command, rest = _command_of(each.words)
    if hasattr(command, "commands"):
        return
    try:
        command.make_context("weft", rest)
    except (MissingParameter, BadOptionUsage):
        assert not each.is_whole


def test_the_documents_show_every_command() -> None:
    shown = {each.words[0] for each in COMMANDS}
    assert shown >= set(typer.main.get_command(app).commands)


def test_every_command_that_ends_takes_json() -> None:
    def leaves(command: Command, name: str) -> list[tuple[str, Command]]:
        if hasattr(command, "commands"):
            return [leaf for name, each in command.commands.items() for leaf in leaves(each, name)]
        return [(name, command)]

    without = {
        name
        for name, each in leaves(typer.main.get_command(app), "weft")
        if "--json" not in {option for parameter in each.params for option in parameter.opts}
    }
    assert without == {"edge", "coordinator", "provider"}


# --- carried out ---------------------------------------------------------------------------------------------------


def started(each: Documented, directory: Path, *more: str) -> subprocess.Popen[str]:
    """A command as a process in a directory."""
    return subprocess.Popen(
        [sys.executable, "-m", "weft", *each.words, *more],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def carry_out(each: Documented, directory: Path) -> str:
    """What a command prints. `weft run` is interrupted when its first cycle is done."""
    process = started(each, directory)
    output = ""
    if each.words[0] == "run":
        assert process.stdout is not None
        while "cycle 0" not in output and (line := process.stdout.readline()):
            output += line
        process.send_signal(signal.SIGINT)
    output += process.communicate(timeout=_PATIENCE)[0]
    assert process.returncode == 0, f"{each}\n{output}"
    return output


def lines_of(name: str, *commands: str) -> list[Documented]:
    """The listed commands of a document, in their order."""
    return [each for each in COMMANDS if each.file == name and each.is_whole and each.words[0] in commands]


@pytest.mark.spark
def test_the_commands_of_the_readme_work_as_it_shows_them(tmp_path: Path) -> None:
    names = ("init", "register", "drop", "queries", "explain", "run", "results", "status", "token")
    shown = [each for each in lines_of("README.md", *names, "check") if "project" in " ".join(each.words)]
    assert {each.words[0] for each in shown} == {*names, "check"}
    outputs: dict[str, str] = {}
    for each in shown:
        outputs[each.words[0]] = carry_out(each, tmp_path)
    assert "0 problems" in outputs["check"]
    assert "last_digits dropped" in outputs["drop"]
    assert "cycle 0" in outputs["run"]
    assert "per_minute" in outputs["status"]
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")


def test_the_ways_to_take_answers_work_as_they_are_shown(tmp_path: Path) -> None:
    Catalog.open(tmp_path).close()
    publisher = Publisher(delivery_directory(tmp_path), "p")
    route = Itinerary("hot", (Subscription("g", (("n", "n"),)),), (Span("g", 0, since=0, clock=("n",)),))
    publish(publisher, 0, [7], route)
    tails = [each for each in lines_of("subscribing.md", "tail") if "--from" not in each.words]
    assert len(tails) == 4
    processes = [started(each, tmp_path, "--count", "1") for each in tails]
    cycle = 0
    while any(process.poll() is None for process in processes):
        cycle += 1
        publish(publisher, cycle, [8])
        time.sleep(0.2)
    for each, process in zip(tails, processes, strict=True):
        assert process.returncode == 0, each
        assert process.communicate()[0].strip() in {"n=7", "n=8", '{"n": 7}', '{"n": 8}'}
    tokens = [carry_out(each, tmp_path) for each in lines_of("subscribing.md", "token")]
    assert len(tokens) == 3
    assert "ann" in tokens[1]


TOPOLOGY = """
sites:
  - {name: n1, capability: 1}
  - {name: n2, capability: 1}
  - {name: feed, source: true}
links:
  - {between: [n1, n2], milliseconds: 2}
  - {between: [feed, n2], milliseconds: 1}
"""
STREAMS = """
CREATE STREAM trades (n BIGINT, price BIGINT) WATERMARK FOR n AS n
USING parquet OPTIONS (path 'incoming');
"""


@pytest.mark.prove
@pytest.mark.spark
def test_a_federation_is_run_as_its_page_shows(tmp_path: Path) -> None:
    """All directories are relative, as they are shown."""
    nats = NatsServer(tmp_path / "store")
    nats.start()
    for name, text in (
        ("topology.yaml", TOPOLOGY),
        ("streams.sql", STREAMS),
        ("queries.sql", "CREATE CONTINUOUS QUERY hot AS SELECT n, price FROM trades WHERE price > 3"),
    ):
        (tmp_path / name).write_text(text)
    shown = [
        replace(each, words=tuple(word.replace("nats://host:4222", nats.url) for word in each.words))
        for each in COMMANDS
        if each.file == "federation.md" and each.is_whole
    ]
    servers = [started(each, tmp_path) for each in shown if each.words[0] in {"coordinator", "provider"}]
    assert len(servers) == 4
    try:
        commands = [each for each in shown if each.words[0] not in {"coordinator", "provider"}]
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and _sites(tmp_path) < {"n1", "n2", "feed"}:
            time.sleep(0.5)
        for each in commands:
            if each.words[0] == "tail":
                tail = started(each, tmp_path, "--count", "2", "--last", "2")
                (tmp_path / "incoming").mkdir()
                pq.write_table(pa.table({"n": [1, 2, 3], "price": [3, 4, 5]}), tmp_path / "incoming" / "1.parquet")
                answers = tail.communicate(timeout=_PATIENCE)[0]
                assert answers.splitlines() == ["n=2  price=4", "n=3  price=5"], answers
            else:
                carry_out(each, tmp_path)
        assert (tmp_path / "network.svg").read_text().startswith("<svg")
        # Streams are dropped by the command that is shown for queries.
        carry_out(Documented("federation.md", 0, ("drop", "trades", "--project", "n1"), True), tmp_path)
    finally:
        for process in servers:
            process.send_signal(signal.SIGINT)
        for process in servers:
            output = process.communicate(timeout=_PATIENCE)[0]
            assert process.returncode == 0, output
        nats.stop()


def _sites(directory: Path) -> set[str]:
    """The sites that have joined, as far as the coordinator says so."""
    asking = Documented("federation.md", 0, ("federation", "status", "--project", "feed", "--json"), True)
    output = started(asking, directory).communicate(timeout=_PATIENCE)[0]
    try:
        return {each["name"] for each in json.loads(output)["sites"]}
    except (ValueError, KeyError):
        return set()
