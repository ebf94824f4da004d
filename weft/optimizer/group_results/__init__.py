"""Groups of queries whose answers overlap: one representative is evaluated and published for all of them.

shapes             which queries can be merged, and what of them
conditions         conditions as boxes: containment, absorption, hulls
forms              what a query or a representative answers: containment and merge
representatives    from a form to queries that the engine can evaluate
subscriptions      what cuts a member's answers out of the group's
cost               rates, widths and selectivities: what it costs to send rows
pricing            the same for the forms and trees of one family
screening          which group a query gains most from, of thousands
query_trees        a group as a tree
forest             the trees of a family: insert, terminate
reoptimisation     rounds that take apart what does not pay, and put together what does
groups             all of it together, as queries come and go
changes            what comes out
"""

from weft.optimizer.group_results.changes import Change, Kind, Part, Representative
from weft.optimizer.group_results.cost import Statistics
from weft.optimizer.group_results.groups import Groups
from weft.optimizer.group_results.kept import members_in

__all__ = ["Change", "Groups", "Kind", "Part", "Representative", "Statistics", "members_in"]
