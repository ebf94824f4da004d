"""Takes queries apart into relations, each once: those with the same id are one node, whatever queries contain them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.algebra import Relation, Select, SetOperation
from weft.algebra.properties import reads
from weft.optimizer.rules.facts import Facts
from weft.plan.event_time import QueryStart
from weft.plan.log_ids import LogId, LogKind
from weft.plan.node_ids import NodeId, log_of, shared_id
from weft.plan.nodes import LogicalNode, OutputNode
from weft.plan.shared_plan import SharedPlan


def share_relations(plan: SharedPlan, facts: Facts) -> SharedPlan:
    if not plan.forms:
        return plan
    logical: dict[str, LogicalNode] = {}
    outputs = []
    for name in sorted(plan.forms, key=lambda each: (plan.queries[each].start.number, each)):
        form, start = plan.forms[name], plan.queries[name].start
        root = shared_id(form.relation, start) if form.shared else NodeId(start.number)
        outputs.append(OutputNode(name, start, root, (log_of(form.relation, root),), form.text))
        for relation, id_, here in within(form.relation, root, start):
            log = LogId(LogKind.ROWS, id_.text)
            if log not in plan.nodes and log not in logical:
                # What queries share says nothing of any of them.
                own = replace(here, number=0) if id_.is_shared else here
                logical[log] = LogicalNode(id_, relation, own, (), order=start.number)
    return plan.with_nodes(outputs).with_fields(forms={}, logical=logical)


def within(relation: Relation, id_: NodeId, start: QueryStart) -> Iterator[tuple[Relation, NodeId, QueryStart]]:
    """A relation and those inside it, innermost first."""
    for step, each in enumerate(reads(relation)):
        if isinstance(each, (Select, SetOperation)):
            yield from within(each, id_.below(step), start.below(relation, each))
    yield relation, id_, start
