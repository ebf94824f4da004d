"""What queries may share: all there is to share, or less of it, to see what each kind of sharing is worth."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Strategy(Enum):
    """How the joins of a new query are chosen."""

    #: Together with what there is to share: a join that exists is worth more than the best order of joins.
    SELECTION = "sharing-selection"
    #: First the best order for the query alone, then what of it exists already, from the bottom up.
    MATCH_PLAN = "match-plan"


@dataclass(frozen=True, slots=True)
class Sharing:
    """A configuration.

    `joins` says whether queries share joins; selections they always share. Without `canonical`, conditions are compared
    as they are written. With `restructuring`, joins that are there give way to weaker ones that more queries can share.
    With `inference`, selections that follow from joins are made before them.
    """

    joins: bool = True
    canonical: bool = True
    strategy: Strategy = Strategy.SELECTION
    restructuring: bool = True
    inference: bool = True


ALL_SHARING = Sharing()
MATCH_PLAN = Sharing(strategy=Strategy.MATCH_PLAN, restructuring=False)
NON_CANON = Sharing(canonical=False, restructuring=False)
MATCH_PLAN_NON_CANON = Sharing(canonical=False, strategy=Strategy.MATCH_PLAN, restructuring=False)
NON_JOIN_SHARING = Sharing(joins=False, restructuring=False)

#: The five that are compared, by the names they have in the literature.
CONFIGURATIONS = {
    "AllSharing": ALL_SHARING,
    "MatchPlan": MATCH_PLAN,
    "NonCanon": NON_CANON,
    "MPlan_NCanon": MATCH_PLAN_NON_CANON,
    "NonJoinS": NON_JOIN_SHARING,
}
