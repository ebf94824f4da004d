"""The network of joins and selections as EXPLAIN describes it: the one that runs or would run, in words of the users.

Nothing runs here and no Spark session is needed. In a project that has run, the network comes from the catalog;
queries that were registered since are planned as the next cycle will plan them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from weft.algebra import DataType, Query, Relation, Select, SetOperation, Source, Table
from weft.algebra.properties import clock_type
from weft.algebra.types import BIGINT
from weft.catalog import Catalog
from weft.explain import plan_description as plan
from weft.explain.condition_text import Leg, column_text, disjunction_text, named_legs
from weft.explain.project import NOT_RUN, Project, relations_of
from weft.optimizer.network.nearest import Nearest, Neighbours
from weft.optimizer.network.nodes import Entry, equations
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.redeciding import Redecided, best_order, costs, order_of, order_text
from weft.optimizer.network.sizes import MeasuredSizes, SizeKey, SizeKind, share_known
from weft.optimizer.network.wanted import SelectNeeds, legs_read
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import indexes_of, restored
from weft.optimizer.rules.keep_sets import picks_columns
from weft.optimizer.sets.share_set_columns import Chain, described, why_not
from weft.plan.canonical import without_names
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import parents_first
from weft.plan.nodes import Evaluator, RelationNode, SparkSelectNode
from weft.plan.shared_plan import SharedPlan
from weft.predicates.clauses import Disjunction
from weft.predicates.operations import Renaming
from weft.runtime.stages.joins.join_groups import JoinGroups, join_groups_of
from weft.runtime.stages.joins.network_records import RecordedSizes, recorded_sizes

#: What a log is called before its name.
_TITLES = {
    LogKind.STREAM: "stream",
    LogKind.TABLE: "table",
    LogKind.ANSWERS: "answers of",
    LogKind.ROWS: "rows of subquery",
}

_INPUT = re.compile(r"\bT(\d+)\b")

#: The costs of queries alone are computed for this number of queries at most: each is planned once more for that.
_MOST_ALONE = 200


def shared_network(
    queries: Sequence[Query],
    planned: SharedPlan,
    project: Project = NOT_RUN,
    woven: Collection[str] = (),
    chosen: str | None = None,
) -> plan.SharedNetwork:
    """The network of some queries, without those that are woven; `chosen` is the one that matters, if one does."""
    networked: dict[str, list[RelationNode]] = {}
    beside: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for query in queries:
        if query.name not in woven and (query.name in project.kept_apart or not query.sharing):
            reasons[query.name] = project.kept_apart.get(query.name, "it was created with SHARING OFF")
    sharing = [query for query in queries if query.name not in woven and query.name not in reasons]
    operators = {query.name: relations_of(planned, query.name) for query in sharing}
    sets = _SetSharing(operators)
    for name, listed in operators.items():
        found = [each for each in listed if each.evaluator is Evaluator.JOINS]
        others = (each for each in listed if each.evaluator is not Evaluator.JOINS)
        rest = "; ".join(dict.fromkeys(_in_words(name, each, sets) for each in others))
        if not found:
            reasons[name] = rest
        else:
            networked[name] = found
            beside |= {name: rest} if rest else {}
    if not networked:
        return plan.SharedNetwork(not_networked=reasons)
    return _NetworkInWords(networked, beside, planned, project).network(reasons, chosen)


def _in_words(query: str, operator: RelationNode, sets: _SetSharing) -> str:
    """How a relation of a query is evaluated that is not the network's."""
    if operator.evaluator is Evaluator.WINDOWS:
        return "aggregates over streams share partials"
    if operator.evaluator is Evaluator.GROUPS:
        return "its groups are kept in the driver"
    if operator.evaluator is Evaluator.SETS:
        return sets.in_words(query, operator)
    assert isinstance(operator, SparkSelectNode)
    return f"Spark evaluates it by itself: {operator.decision.reason}"


class _NetworkInWords:
    """The network while it is put into words."""

    def __init__(
        self,
        operators: Mapping[str, Sequence[RelationNode]],
        beside: Mapping[str, str],
        planned: SharedPlan,
        project: Project,
    ) -> None:
        self._operators, self._beside, self._project = operators, beside, project
        self._selects = {
            each.text: (each.relation, each.logs)
            for of in operators.values()
            for each in of
            if isinstance(each.relation, Select)
        }
        self._planned = planned.network
        self._planner: Planner = indexes_of(planned, Facts()).planner
        self._families: JoinGroups = join_groups_of(self._planned)
        self._logs = _logs(operators)
        self._neighbours = Neighbours(self._planner.nodes)
        self._legs = {
            number: named_legs([self._logs[log] for log in node.legs]) for number, node in self._planned.nodes.items()
        }
        self._chains = {name: self._chain(name) for name in operators}
        self._users: dict[int, list[str]] = {number: [] for number in self._planned.nodes}
        for name, chain in self._chains.items():
            for number in chain:
                self._users[number].append(name)
        self._alone: dict[tuple[int, ...], int] = {}
        self._orders = _JoinOrders(planned, project.catalog)

    def network(self, reasons: Mapping[str, str], chosen: str | None) -> plan.SharedNetwork:
        nodes = {number: self._node(number) for number in self._planned.nodes}
        is_worked_out = len(self._operators) <= _MOST_ALONE
        queries = {name: self._query(name, is_worked_out or name == chosen) for name in self._operators}
        return plan.SharedNetwork(nodes, tuple(self._join_families()), queries, reasons)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _answers(self, query: str) -> list[int]:
        """The nodes in which the selects of a query find their rows."""
        return [self._planned.results[operator.text].node for operator in self._operators[query]]

    def _chain(self, query: str) -> list[int]:
        """The nodes that a query needs, parents first."""
        parents = {number: node.parents for number, node in self._planned.nodes.items()}
        needed = set(parents_first(parents, self._answers(query)))
        return [number for number in parents if number in needed]

    def _node(self, number: int) -> plan.SharedNode:
        node, entry, legs = self._planned.nodes[number], self._planner.nodes[number], self._legs[number]
        looked_up = equations(node.predicates) if node.is_join else frozenset()
        others = [each for each in node.predicates.disjunctions if each not in looked_up]
        return plan.SharedNode(
            number,
            plan.LOG if node.is_base else plan.JOIN if node.is_join else plan.SELECTION,
            _title(node.legs[0], self._logs) if node.is_base else "",
            node.parents,
            entry.level,
            tuple(leg.name for leg in legs),
            tuple(self._texts(looked_up, number)),
            tuple(self._texts(others, number)),
            tuple(column_text(legs[leg], name) for leg, name in node.columns),
            node.timely,
            self._planner.rows(number),
            self._project.measured.get(node.legs[0]) if node.is_base else None,
            self._planner.rows_looked_at(number),
            tuple(self._users[number]),
        )

    def _texts(self, conditions: Collection[Disjunction], number: int) -> Iterator[str]:
        for each in sorted(conditions, key=lambda each: each.text):
            text = disjunction_text(each, self._legs[number])
            yield f"({text})" if " OR " in text else text

    def _join_families(self) -> Iterator[plan.JoinFamily]:
        members: dict[str, list[int]] = {}
        for number, family in self._families.homes.items():
            members.setdefault(family.name, []).append(number)
        for family in self._families.groups:
            if not family.sides:
                continue
            numbers = members[family.name]
            joins = tuple(each for each in numbers if self._planned.nodes[each].is_join)
            first = self._planned.nodes[joins[0]]
            keys = {key.text for key in family.keys}
            shared = [each for each in first.predicates.disjunctions if each.text in keys]
            yield plan.JoinFamily(
                family.level,
                tuple(self._logs[log].name for log in family.legs),
                tuple(self._texts(shared, first.number)),
                joins,
                tuple(each for each in numbers if each not in joins),
                self._project.measured.get(family.name),
            )

    # -- queries ------------------------------------------------------------------------------------------------------

    def _query(self, name: str, with_alone: bool) -> plan.NetworkQuery:
        chain = self._chains[name]
        own = [number for number in chain if len(self._users[number]) == 1]
        cost = sum((Fraction(self._planner.rows_looked_at(n), len(self._users[n])) for n in chain), Fraction(0))
        return plan.NetworkQuery(
            name,
            tuple(self._answer(operator) for operator in self._operators[name]),
            tuple(chain),
            tuple(number for number in chain if number not in own),
            tuple(own),
            cost,
            self._cost_alone(name) if with_alone else None,
            tuple(self._not_shared(name, own)),
            self._beside.get(name),
            tuple(order for operator in self._operators[name] for order in self._orders.of(operator)),
        )

    def _answer(self, operator: RelationNode) -> plan.AnsweredBy:
        """The node of a select, and which of its legs each input is."""
        result = self._planned.results[operator.text]
        assert isinstance(operator.relation, Select)
        legs = self._legs[result.node]
        named = [
            f"{item.alias} = {legs[leg].name}"
            for item, leg in zip(operator.relation.inputs, result.legs, strict=True)
            if legs[leg].name not in ("", item.alias)
        ]
        return plan.AnsweredBy(result.node, tuple(named))

    def _cost_alone(self, name: str) -> int:
        """What a query costs if there is no other. Those that find their rows in the same nodes cost the same."""
        found = tuple(self._answers(name))
        if found not in self._alone:
            planner = Planner(self._planner.statistics)
            for operator in self._operators[name]:
                planner.register(operator.text, *self._selects[operator.text])
            self._alone[found] = sum(map(planner.rows_looked_at, planner.nodes.entries))
        return self._alone[found]

    # -- why not ------------------------------------------------------------------------------------------------------

    def _not_shared(self, name: str, own: Sequence[int]) -> Iterator[plan.NotShared]:
        """Why a query has nodes to itself. What stands on a node of its own could not be shared: that is left out."""
        answers = set(self._answers(name))
        for number in own:
            entry = self._planner.nodes[number]
            grounds = (entry.anchor,) if entry.anchors is None else entry.anchors[:2]
            stands_alone = any(ground in own and self._planner.nodes[ground].parents for ground in grounds)
            if entry.parents and not stands_alone and (entry.anchors is not None or number in answers):
                nearest = self._neighbours.nearest(number, {*own, *self._chains[name]})
                yield self._in_words(number, nearest)

    def _in_words(self, number: int, nearest: Nearest | None) -> plan.NotShared:
        entry, legs = self._planner.nodes[number], self._legs[number]
        if nearest is None:
            return plan.NotShared(number, None, self._without_neighbour(entry))
        other = nearest.node
        if nearest.differs_in_lateness:
            timely = "leaves out rows that come too late, and this query does not"
            late = "takes rows however late they come, and this query does not"
            return plan.NotShared(number, other, f"node {other} {late if entry.timely else timely}")
        its, ours = (
            tuple(disjunction_text(each, legs) for each in some)
            for some in (nearest.its_equations, nearest.own_equations)
        )
        if its:
            reason = f"joined by other equations: {' AND '.join(ours)} against {' AND '.join(its)} of node {other}"
            return plan.NotShared(number, other, reason, its, ours)
        if nearest.in_the_way:
            theirs = [disjunction_text(each, legs) for each, _ in nearest.in_the_way]
            needs = dict.fromkeys(disjunction_text(each, legs) for _, some in nearest.in_the_way for each in some)
            wanted = f"this query needs {' AND '.join(needs)}" if needs else "this query does not ask for that"
            kept = "pairs" if len(legs) == 2 else "combinations" if len(legs) > 2 else "rows"
            reason = f"node {other} keeps only {kept} with {' AND '.join(theirs)}; {wanted}"
            return plan.NotShared(number, other, reason, tuple(theirs), tuple(needs))
        if other > number:
            return plan.NotShared(number, other, f"node {other} gives all that is needed, but came later")
        rows = self._planner.rows(other)
        reason = f"node {other} gives all that is needed, but to look at its {rows:,} rows would cost more"
        return plan.NotShared(number, other, reason)

    def _without_neighbour(self, entry: Entry) -> str:
        if entry.anchors is None:
            return f"no other query selects from {self._named(entry.anchor)}"
        left, right = (self._named(anchor) for anchor in entry.anchors[:2])
        return f"no other query joins {left} with {'itself' if left == right else right}"

    def _named(self, number: int) -> str:
        node = self._planned.nodes[number]
        return _title(node.legs[0], self._logs) if node.is_base else f"node {number}"


def _logs(operators: Mapping[str, Sequence[RelationNode]]) -> dict[LogId, Leg]:
    """The name of each log for people, and the type of its clock. A subquery is called after a query that it is in."""
    logs: dict[LogId, Leg] = {}
    for query, listed in operators.items():
        for operator in listed:
            for log, source in operator.sources:
                name = log.of
                if log.kind is LogKind.ROWS:
                    name = logs[log].name if log in logs else f"{query}_{sum(n.kind is LogKind.ROWS for n in logs)}"
                logs.setdefault(log, Leg(name, _clock(source)))
    return logs


def _clock(source: Source) -> DataType:
    return BIGINT if isinstance(source, Table) else clock_type(source)


def _title(log: LogId, logs: Mapping[LogId, Leg]) -> str:
    return f"{_TITLES[log.kind]} {logs[log].name}"


# -- orders of joins ---------------------------------------------------------------------------------------------------


class _JoinOrders:
    """The orders of some selects: in a project that has run, with what was seen of them."""

    def __init__(self, planned: SharedPlan, catalog: Catalog | None) -> None:
        self._evidence = RecordedSizes({}, {}, ()) if catalog is None else recorded_sizes(catalog)
        observed = MeasuredSizes()
        observed.restore(self._evidence.known)
        self._planner = restored(planned, Facts(sizes=observed)).planner
        self._planner.estimates.reset()

    def of(self, operator: RelationNode) -> Iterator[plan.JoinOrder]:
        """The order of a select, if there is something to tell."""
        place = operator.text
        history = [each for each in self._evidence.history if place in each.places]
        if len(operator.logs) < 2 or (len(operator.logs) < 3 and not history):
            return
        assert isinstance(operator.relation, Select)
        what = self._planner.needs_of(operator.relation, operator.logs)
        names = [item.alias for item in operator.relation.inputs]
        called = _called(operator, what, self._planner.renaming)
        changes = tuple(_change(each, names, called) for each in history)
        order = _named(order_text(order_of(self._planner.nodes, place)), names)
        if not self._evidence.known:
            yield plan.JoinOrder(order, history=changes)
            return
        found = costs(self._planner, (place,), {place: what})
        best = _named(order_text(best_order(self._planner, place, what)), names)
        seen = {text: self._evidence.known[known] for known, text in called.items() if known in self._evidence.known}
        yield plan.JoinOrder(order, found.now, best, found.best, seen, changes)


def _called(operator: RelationNode, what: SelectNeeds, renaming: Renaming) -> dict[SizeKey, str]:
    """What the numbers are called that the costs of a select depend on: rows of its inputs, and its conditions."""
    assert isinstance(operator.relation, Select)
    legs = [Leg(each.alias, _clock(each.source)) for each in operator.relation.inputs]
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


def _change(decided: Redecided, names: Sequence[str], called: Mapping[SizeKey, str]) -> plan.OrderChange:
    seen = {called[known]: value for known, value in decided.observed if known in called}
    before, after = (_named(each, names) for each in (decided.before, decided.after))
    return plan.OrderChange(decided.cycle, before, after, decided.cost_before, decided.cost_after, seen)


def _named(order: str, names: Sequence[str]) -> str:
    """An order with the names that a select gives its inputs: T1, T2 and so on in the order of FROM."""
    return _INPUT.sub(lambda found: names[int(found.group(1)) - 1], order)


# -- set operators -----------------------------------------------------------------------------------------------------


class _SetSharing:
    """The set operators of some queries: which queries use each of them, and what keeps two of them apart."""

    def __init__(self, operators: Mapping[str, Sequence[RelationNode]]) -> None:
        self._users: dict[str, set[str]] = {}
        self._chains: dict[str, list[tuple[str, Chain]]] = {}
        for query, listed in operators.items():
            for operator in listed:
                if operator.evaluator is Evaluator.SETS:
                    self._users.setdefault(operator.log, set()).add(query)
                    for chain in _chains(operator.relation):
                        for body in {each.body for each in chain.operands}:
                            self._chains.setdefault(body, []).append((query, chain))

    def in_words(self, query: str, operator: RelationNode) -> str:
        """How a relation of a query is evaluated, and with which other queries."""
        if picks_columns(operator.relation):
            shown, (log,) = "columns of what a set operator gives are picked in the driver", operator.logs
        else:
            shown, log = "values are remembered in the driver", operator.log
        others = sorted(self._users.get(log, set()) - {query})
        if others:
            return f"{shown}, for {', '.join(others[:3])}{' and others' if len(others) > 3 else ''} too"
        apart = next(self._apart(query, operator.relation), None)
        return shown if apart is None else f"{shown}; {apart}"

    def _apart(self, query: str, relation: Relation) -> Iterator[str]:
        """Of which other queries a set operator has some of the columns, and why it is not made of them."""
        for chain in _chains(relation):
            for body in sorted({each.body for each in chain.operands}):
                for other, wide in self._chains.get(body, ()):
                    reason = why_not(chain, wide) if other != query else None
                    if reason is not None:
                        yield f"{other} has its columns and more, but {reason}"


def _chains(relation: Relation) -> Iterator[Chain]:
    if isinstance(relation, SetOperation):
        plain = without_names(relation)
        assert isinstance(plain, SetOperation)
        yield described(plain)
