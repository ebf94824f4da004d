"""Gives each new query its canonical form: without the names that its user gave, with operands in their order.

What a query is evaluated as is decided when it begins, and stays: its state belongs to that form. A query that shares
nothing is evaluated as it is written.
"""

from __future__ import annotations

from weft.algebra.codec import loads
from weft.optimizer.rules.facts import Facts
from weft.plan.canonical import without_names
from weft.plan.event_time import RunningQuery
from weft.plan.shared_plan import Form, SharedPlan


def canonicalise(plan: SharedPlan, facts: Facts) -> SharedPlan:
    forms = {name: _form(name, query, facts) for name, query in plan.queries_not_answered.items()}
    return plan.with_fields(forms=forms) if forms else plan


def _form(name: str, query: RunningQuery, facts: Facts) -> Form:
    begun, relation = facts.begun.get(name), query.query.relation
    shared = begun.shared if begun is not None else facts.sharing and query.query.sharing
    if not shared:
        return Form(relation, shared=False, is_final=True)
    if begun is not None and begun.root:
        return Form(loads(begun.root), shared=True, is_final=True, text=begun.root)
    return Form(without_names(relation), shared=True, is_final=begun is not None)
