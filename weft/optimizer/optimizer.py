"""From queries to the shared plan that answers them: rules, one after the other.

A rule takes a plan and facts and gives a plan. It changes nothing that needs no change, so optimising again between two
cycles costs what has changed: queries that came and went, and facts that left the range a decision was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from weft.optimizer.rules.canonicalise import canonicalise
from weft.optimizer.rules.choose_kernels import choose_kernels
from weft.optimizer.rules.drop_unread import drop_unread
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.fall_back import fall_back
from weft.optimizer.rules.group_rows import group_rows
from weft.optimizer.rules.indexes import indexes_of
from weft.optimizer.rules.keep_sets import keep_sets
from weft.optimizer.rules.order_joins import order_joins
from weft.optimizer.rules.place_state import place_state
from weft.optimizer.rules.share_joins import share_joins
from weft.optimizer.rules.share_reductions import share_reductions
from weft.optimizer.rules.share_relations import share_relations
from weft.optimizer.rules.share_set_operators import share_set_operators
from weft.optimizer.rules.weave_windows import weave_windows
from weft.plan.event_time import RunningQuery
from weft.plan.shared_plan import SharedPlan

Rule: TypeAlias = Callable[[SharedPlan, Facts], SharedPlan]

#: In the order in which they are applied.
RULES: Final[tuple[Rule, ...]] = (
    drop_unread,
    canonicalise,
    share_set_operators,
    share_relations,
    share_reductions,
    group_rows,
    keep_sets,
    share_joins,
    fall_back,
    weave_windows,
    choose_kernels,
    order_joins,
    place_state,
)

#: The plan of no queries.
EMPTY: Final = SharedPlan()


def optimise(queries: Mapping[str, RunningQuery], facts: Facts, previous: SharedPlan = EMPTY) -> SharedPlan:
    """The plan that answers some queries; the previous one if it does. It depends on no order of queries."""
    plan = previous
    for _, plan in steps(queries, facts, previous):  # noqa: B007
        pass
    is_same = plan.nodes is previous.nodes and previous.queries.keys() == queries.keys() and not previous.events
    return previous if is_same else plan


def steps(
    queries: Mapping[str, RunningQuery], facts: Facts, previous: SharedPlan = EMPTY
) -> Iterator[tuple[str, SharedPlan]]:
    """The plan after each rule, by the rule's name."""
    indexes = indexes_of(previous, facts)
    plan = previous.asked_for(queries).with_fields(indexes=indexes)
    for rule in RULES:
        plan = rule(plan, facts)
        yield rule.__name__, plan
    indexes.nodes = plan.nodes
