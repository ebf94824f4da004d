"""The network that all queries share: selections and joins, each computed once.

wanted.py            a select as the network sees it
nodes.py             the nodes, and the index that finds them
sizes.py             how many rows logs and nodes have: given, measured and expected
choose_joins.py      which joins a select uses
planner.py           register and deregister: nodes that a select still lacks, and weaker joins in the place of two
redeciding.py        what the joins of selects cost, and joins chosen again while they run
nearest.py           why a node is not shared
"""

from weft.optimizer.network.planner import Planner
from weft.optimizer.network.redeciding import ForcedChoices, Patience, Redecided, Redeciding
from weft.optimizer.network.sizes import NOTHING_KNOWN, MeasuredSizes, SizeKey, SizeKind, SizeStatistics
from weft.optimizer.network.wanted import SelectNeeds, is_shareable, wanted

__all__ = [
    "NOTHING_KNOWN",
    "ForcedChoices",
    "MeasuredSizes",
    "Patience",
    "Planner",
    "Redecided",
    "Redeciding",
    "SelectNeeds",
    "SizeKey",
    "SizeKind",
    "SizeStatistics",
    "is_shareable",
    "wanted",
]
