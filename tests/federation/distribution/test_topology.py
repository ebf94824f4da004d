"""Sites and links from YAML, and what is said of files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.federation.distribution.topology import Link, Site, read_topology
from weft.federation.federation_errors import TopologyError

GOOD = """
sites:
  - {name: zurich, capability: 8}
  - {name: feed, source: true}
  - {name: exchange}
links:
  - {between: [zurich, exchange], milliseconds: 3.5}
  - {between: [feed, exchange], milliseconds: 0.2}
"""


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(GOOD)
    topology = read_topology(path)
    assert topology.sites == (Site("zurich", 8.0), Site("feed", 0.0, True), Site("exchange"))
    assert topology.links == (Link("zurich", "exchange", 3500), Link("feed", "exchange", 200))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("zurich, exchange]", "zurich, basel]", r"links\[0\]: there is no site 'basel'"),
        ("zurich, exchange]", "zurich]", r"links\[0\]: `between` names two sites"),
        ("zurich, exchange]", "zurich, zurich]", r"links\[0\]: a link leads from one site to another"),
        ("[zurich, exchange], milliseconds: 3.5", "[zurich, exchange]", r"links\[0\]: say how long"),
        ("3.5", "0", r"links\[0\]: a message takes 0.001 milliseconds at least"),
        ("3.5", "-1", r"links\[0\]: milliseconds must be a number, zero or more; found -1"),
        ("3.5", ".nan", r"links\[0\]: milliseconds must be a number"),
        ("capability: 8", "capability: much", r"sites\[0\] \(zurich\): capability must be a number"),
        ("capability: 8", "cores: 8", r"sites\[0\]: unknown key 'cores'; known are capability, name, source"),
        (", capability: 8", "", "no site has a capability"),
        (", source: true", "", "no site is a source"),
        ("source: true", "source: 1", r"sites\[1\] \(feed\): source is true or false"),
        ("name: exchange", "name: feed", r"sites\[2\]: there is a site 'feed' already"),
        ("{name: exchange}", "{}", r"sites\[2\]: a site needs a name"),
        ("links:", "wires:", "unknown key 'wires'"),
        ("  - {between: [zurich, exchange], milliseconds: 3.5}\n", "", "no links lead from 'zurich' to 'feed'"),
        ("sites:", "sites: 3\nrest:", "unknown key 'rest'"),
        ("{name: zurich", "{name: zurich: 1", "line 3 is not YAML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "sites.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(TopologyError, match=said) as found:
        read_topology(path)
    assert "sites.yaml" in str(found.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="cannot be read"):
        read_topology(tmp_path / "none.yaml")
