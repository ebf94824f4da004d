"""In which order selects are joined, why, and which orders they had before: for EXPLAIN, from the catalog alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from weft.algebra import Select
from weft.algebra.properties import clock_type
from weft.algebra.relations import Table
from weft.algebra.types import BIGINT
from weft.catalog import Catalog
from weft.explain.condition_text import Leg, disjunction_text
from weft.explain.plan_description import JoinOrder, OrderChange
from weft.optimizer.network import MeasuredSizes, Redecided, SizeKey, SizeKind
from weft.optimizer.network.redeciding import best_order, costs, order_of, order_text
from weft.optimizer.network.sizes import share_known
from weft.optimizer.network.wanted import SelectNeeds, legs_read
from weft.plan.log_ids import LogId
from weft.predicates.operations import Renaming
from weft.runtime.stages.joins.stored_network import RecordedSizes, StoredNetwork, recorded_sizes
from weft.runtime.stages.operators import Operator

_INPUT = re.compile(r"\bT(\d+)\b")


class JoinOrders:
    """The orders of some selects: in a project that has run, with what was seen of them."""

    def __init__(self, selects: Mapping[str, tuple[Select, Sequence[LogId]]], catalog: Catalog | None) -> None:
        self._evidence = RecordedSizes({}, {}, ()) if catalog is None else recorded_sizes(catalog)
        observed = MeasuredSizes()
        observed.restore(self._evidence.known)
        kept = StoredNetwork(catalog, statistics=observed)
        kept.planned(selects)
        kept.planner.estimates.reset()
        self._planner = kept.planner

    def of(self, operator: Operator) -> Iterator[JoinOrder]:
        """The order of a select, if there is something to tell."""
        place, history = operator.id.text, self._evidence.of_select(operator.id.text)
        if len(operator.inputs) < 2 or (len(operator.inputs) < 3 and not history):
            return
        assert isinstance(operator.relation, Select)
        what = self._planner.needs_of(operator.relation, operator.inputs)
        names = [item.alias for item in operator.relation.inputs]
        called = _called(operator, what, self._planner.renaming)
        changes = tuple(_change(each, names, called) for each in history)
        order = _named(order_text(order_of(self._planner.nodes, place)), names)
        if not self._evidence.known:
            yield JoinOrder(order, history=changes)
            return
        found = costs(self._planner, (place,), {place: what})
        best = _named(order_text(best_order(self._planner, place, what)), names)
        seen = {text: self._evidence.known[known] for known, text in called.items() if known in self._evidence.known}
        yield JoinOrder(order, found.now, best, found.best, seen, changes)


def _called(operator: Operator, what: SelectNeeds, renaming: Renaming) -> dict[SizeKey, str]:
    """What the numbers are called that the costs of a select depend on: rows of its inputs, and its conditions."""
    assert isinstance(operator.relation, Select)
    inputs = operator.relation.inputs
    legs = [Leg(each.alias, BIGINT if isinstance(each.source, Table) else clock_type(each.source)) for each in inputs]
    called: dict[SizeKey, str] = {}
    for log, leg in zip(what.logs, legs, strict=True):
        # A stream that is joined with itself has one number, whatever it is called.
        called.setdefault(SizeKey(SizeKind.ROWS, (log,)), f"rows of {leg.name}")
    for condition in what.predicates.disjunctions:
        read = legs_read(condition)
        if len(read) > 1 and not any(literal.operator == "=" for literal in condition.literals):
            continue
        whose = f"pairs of {' and '.join(legs[leg].name for leg in read)}" if len(read) > 1 else "rows"
        known = share_known(condition, what.logs, read, renaming)
        called[known] = f"{whose} with {disjunction_text(condition, legs)}"
    return called


def _change(decided: Redecided, names: Sequence[str], called: Mapping[SizeKey, str]) -> OrderChange:
    seen = {called[known]: value for known, value in decided.observed if known in called}
    before, after = (_named(each, names) for each in (decided.before, decided.after))
    return OrderChange(decided.cycle, before, after, decided.cost_before, decided.cost_after, seen)


def _named(order: str, names: Sequence[str]) -> str:
    """An order with the names that a select gives its inputs: T1, T2 and so on in the order of FROM."""
    return _INPUT.sub(lambda found: names[int(found.group(1)) - 1], order)
