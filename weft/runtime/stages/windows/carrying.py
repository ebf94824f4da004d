"""Queries come and go, and trees go on.

A window more or less makes another plan: another tree would answer the queries of the cohort best. To make it takes all
partials that are kept, for windows that were there before. So trees go on as they are:

    a window goes     its tree is not asked for it any more
    a window comes    it answers for what is still to come, and gets a tree of its own, which needs nothing that is kept

until too much of them is of no use, or they are too many; and when another process takes over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from weft.runtime.stages.windows.groups import longest_first
from weft.runtime.stages.windows.shape import Woven
from weft.runtime.stages.windows.tree import TreeSpec

#: So many trees more than planned are kept for a cohort.
_MORE_TREES = 3


def carried_on(
    planned: Collection[TreeSpec], queries: Mapping[str, Woven], newborn: Set[str], known: Iterable[TreeSpec]
) -> dict[str, TreeSpec] | None:
    """The trees that answer the queries of a cohort, if those that are `known` go on; None if they had better not.

    One of them at most is new. It serves queries that are `newborn`: what is kept is no concern of theirs. Those that
    are known come in the order in which they were made: where two have a window, the older one has more of its past.
    """
    homes: dict[str, TreeSpec] = {}
    needs = {name: {each.name for each in query.all_measures} for name, query in queries.items()}
    for spec in known:
        windows, measures = set(spec.windows), set(spec.measures)
        for name, query in queries.items():
            if name not in homes and query.window in windows and measures >= needs[name]:
                homes[name] = spec
    young = queries.keys() - homes.keys()
    if not homes or not young <= newborn:
        return None
    for spec in set(homes.values()):
        asked = {queries[name].window for name, home in homes.items() if home == spec}
        if 2 * len(asked) < len(spec.windows):
            return None
    if young:
        conditions, keys = next((each.conditions, each.keys) for each in planned)
        asked_for = sorted({queries[name].window for name in young}, key=longest_first)
        needed = {measure for name in young for measure in needs[name]}
        # In the order of those that are planned, since the first one counts rows.
        in_order = dict.fromkeys(each for spec in planned for each in spec.measures if each in needed)
        homes |= dict.fromkeys(young, TreeSpec(conditions, keys, tuple(asked_for), tuple(in_order)))
    return homes if len(set(homes.values())) <= len(planned) + _MORE_TREES else None
