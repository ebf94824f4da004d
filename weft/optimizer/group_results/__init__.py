"""Groups of queries whose answers overlap: one representative is evaluated and published for all of them.

shapes               which queries can be merged, and their parts that matter for that
forms                the rows that a query or a representative answers: containment and merge
representatives      queries that the engine evaluates for a form, and subscriptions for members
traffic_estimates    rates, widths and selectivities
pricing              nodes of trees, what they cost, and which group a query gains most from
forest, groups       the groups of a family as trees, and all families together, as queries come and go
"""

from weft.optimizer.group_results.forms import QueryKind
from weft.optimizer.group_results.groups import GroupChange, Groups
from weft.optimizer.group_results.representatives import EvaluatedPart, GroupRepresentative
from weft.optimizer.group_results.traffic_estimates import TrafficStatistics

__all__ = [
    "EvaluatedPart",
    "GroupChange",
    "GroupRepresentative",
    "Groups",
    "QueryKind",
    "TrafficStatistics",
]
