"""Has set operators of queries that begin together share all they can (`weft/optimizer/sets`).

Their state is stored under the form that they get here, so queries that began earlier keep theirs.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra import Relation, Select, SetOperation
from weft.algebra.codec import dumps
from weft.algebra.properties import reads
from weft.optimizer.rules.facts import Facts
from weft.optimizer.sets.arrange_set_operators import arranged
from weft.plan.canonical import with_ordered_operands
from weft.plan.shared_plan import Form, SharedPlan


def share_set_operators(plan: SharedPlan, facts: Facts) -> SharedPlan:
    found = {name: form for name, form in plan.forms.items() if form.shared and not form.text}
    combining = {name: form for name, form in found.items() if _combines(form.relation)}
    if not combining:
        return plan
    ordered = {name: with_ordered_operands(form.relation) for name, form in combining.items()}
    beginning = sorted(name for name, form in combining.items() if not form.is_final)
    forms = {name: replace(combining[name], relation=ordered[name]) for name in combining}
    for name, relation in zip(beginning, arranged([combining[name].relation for name in beginning]), strict=True):
        text = "" if relation == ordered[name] else dumps(relation)
        forms[name] = Form(relation, shared=True, is_final=True, text=text)
    return plan.with_fields(forms={**plan.forms, **forms})


def _combines(relation: Relation) -> bool:
    """Whether there is a set operator in a relation."""
    return isinstance(relation, SetOperation) or any(
        _combines(each) for each in reads(relation) if isinstance(each, (Select, SetOperation))
    )
