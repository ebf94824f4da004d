"""Where things are: sites, the links between them, which of them run queries and which of them send data.

sites.py            sites and links as data, and the shortest ways between sites
generated.py        transit–stub and power-law networks from a seed
file.py             the same from a YAML file
"""

from weft.federation.topology.file import read_topology, topology_from
from weft.federation.topology.generated import power_law, transit_stub
from weft.federation.topology.sites import Link, Site, Topology, Ways, ways_from

__all__ = [
    "Link",
    "Site",
    "Topology",
    "Ways",
    "power_law",
    "read_topology",
    "topology_from",
    "transit_stub",
    "ways_from",
]
