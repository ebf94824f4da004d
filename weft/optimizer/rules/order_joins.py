"""Chooses the orders of joins again, when measurements contradict what they were chosen by for long enough."""

from __future__ import annotations

from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import indexes_within, with_network
from weft.optimizer.rules.share_joins import redeciding_of
from weft.plan.shared_plan import SharedPlan


def order_joins(plan: SharedPlan, facts: Facts) -> SharedPlan:
    if facts.revised is None:
        return plan
    indexes = indexes_within(plan)
    redeciding = redeciding_of(plan, indexes, facts)
    decided = [] if redeciding is None else redeciding.decide(facts.cycle)
    if not decided:
        return plan
    return with_network(plan, indexes, {}).with_fields(events=(*plan.events, *decided))
