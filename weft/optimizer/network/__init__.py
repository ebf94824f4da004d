"""The network that all queries share: selections and joins, each computed once.

sharing.py              configurations
wanted.py               a select as the network sees it
meeting_predicates.py   windows of a join's inputs as predicates on pairs of clocks
statistics.py           what is known of sizes
observed.py             what is measured of them while a network runs
nodes.py                the nodes, and the index that finds them
request.py              a select on its way into the network
choose_joins.py         which joins it uses
build.py                the nodes that it still lacks
planner.py              register and deregister
recosting.py            what selects cost that are there, and what they would cost now
redeciding.py           joins chosen anew while they run
kept.py                 the nodes in the catalog
soundness.py            whether what was kept is a network
nearest.py              why a node is not shared
network_size.py         the weighted size of a network
"""

from weft.optimizer.network.kept import KeptNetwork
from weft.optimizer.network.network_size import weighted_size
from weft.optimizer.network.observed import Kind, Known, Observed
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.redeciding import Patience, Redecided, Redeciding, Whim
from weft.optimizer.network.sharing import ALL_SHARING, CONFIGURATIONS, Sharing, Strategy
from weft.optimizer.network.statistics import NOTHING_KNOWN, Statistics, Supposed
from weft.optimizer.network.wanted import Wanted, is_shareable, wanted

__all__ = [
    "ALL_SHARING",
    "CONFIGURATIONS",
    "NOTHING_KNOWN",
    "KeptNetwork",
    "Kind",
    "Known",
    "Observed",
    "Patience",
    "Planner",
    "Redecided",
    "Redeciding",
    "Sharing",
    "Statistics",
    "Strategy",
    "Supposed",
    "Wanted",
    "Whim",
    "is_shareable",
    "wanted",
    "weighted_size",
]
