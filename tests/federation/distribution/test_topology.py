"""Sites and links from YAML, and what is said of files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.federation.distribution.topology import Site, SiteLink, read_topology

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
    assert topology.links == (SiteLink(("zurich", "exchange"), 3.5), SiteLink(("feed", "exchange"), 0.2))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("zurich, exchange]", "zurich, basel]", r"links\[0\]: there is no site 'basel'"),
        (
            "zurich, exchange]",
            "zurich]",
            r"`array` of length 2, got 1 - at `\$\.links\[0\]\.between`",
        ),
        ("zurich, exchange]", "zurich, zurich]", r"links\[0\]: a link leads from one site to another"),
        (
            "[zurich, exchange], milliseconds: 3.5",
            "[zurich, exchange]",
            r"missing required field `milliseconds` - at `\$\.links\[0\]`",
        ),
        ("3.5", "0", r">= 0.001 - at `\$\.links\[0\]\.milliseconds`"),
        ("3.5", "-1", r">= 0.001 - at `\$\.links\[0\]\.milliseconds`"),
        ("3.5", ".nan", r">= 0.001 - at `\$\.links\[0\]\.milliseconds`"),
        ("capability: 8", "capability: much", r"Expected `float`, got `str` - at `\$\.sites\[0\]\.capability`"),
        ("capability: 8", "cores: 8", r"unknown field `cores` - at `\$\.sites\[0\]`"),
        (", capability: 8", "", "no site has a capability"),
        (", source: true", "", "no site is a source"),
        ("source: true", "source: 1", r"Expected `bool`, got `int` - at `\$\.sites\[1\]\.source`"),
        ("name: exchange", "name: feed", r"sites\[2\]: there is a site 'feed' already"),
        ("{name: exchange}", "{}", r"missing required field `name` - at `\$\.sites\[2\]`"),
        ("links:", "transports:", "unknown field `transports`"),
        ("  - {between: [zurich, exchange], milliseconds: 3.5}\n", "", "no links lead from 'zurich' to 'feed'"),
        ("sites:", "sites: 3\nrest:", "unknown field `rest`|Expected `array`"),
        ("{name: zurich", "{name: zurich: 1", "line 3 is not YAML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "sites.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(match=said) as found:
        read_topology(path)
    assert "sites.yaml" in str(found.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(match="cannot be read"):
        read_topology(tmp_path / "none.yaml")
