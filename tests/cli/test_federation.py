"""The commands of a federation: what they say when they cannot be carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft.cli import app
from weft.federation.live.site_directory import SiteMembership, write_membership

_NOBODY = "nats://127.0.0.1:9/market"


def _fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    "command", [("status",), ("plan",), ("move", "q", "n1"), ("explain", "q"), ("picture", "x.svg")]
)
def test_a_directory_that_is_no_site_is_said_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "is not the directory of a federation's site" in _fails("federation", *command, "--project", str(tmp_path))


def test_a_broker_that_is_away_is_said_so(tmp_path: Path) -> None:
    write_membership(tmp_path, SiteMembership("n1", _NOBODY))
    assert "cannot be reached" in _fails("federation", "status", "--project", str(tmp_path))
    script = tmp_path / "q.sql"
    script.write_text("CREATE CONTINUOUS QUERY q AS SELECT n FROM trades")
    assert "cannot be reached" in _fails("register", str(script), "--project", str(tmp_path))


def test_an_address_says_which_federation(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text("sites: [{name: a, capability: 1, source: true}]\nlinks: []\n")
    given = ("--state", str(tmp_path / "state"), "--federation")
    assert "names no federation" in _fails("coordinator", str(topology), *given, "nats://127.0.0.1:9")
    assert "is no address" in _fails("coordinator", str(topology), *given, "127.0.0.1:9/x")
    topology.write_text("sites: [{name: a}]\nlinks: []\n")
    assert "no site has a capability" in _fails("coordinator", str(topology), *given, _NOBODY)


def test_a_directory_belongs_to_one_site(tmp_path: Path) -> None:
    write_membership(tmp_path, SiteMembership("n1", _NOBODY))
    given = ("--project", str(tmp_path), "--source-only", "--federation", _NOBODY)
    assert "is the directory of site 'n1'" in _fails("provider", "n2", *given)
