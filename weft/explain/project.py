"""What is known of the queries that are explained: when they began, what was decided then, and the plan that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.algebra import Query, Relation
from weft.algebra.codec import dumps
from weft.catalog import Catalog
from weft.optimizer.aggregates.stream_shapes import NotWoven, woven
from weft.optimizer.optimizer import EMPTY, optimise, steps
from weft.optimizer.rules.facts import BegunQuery, Facts
from weft.optimizer.rules.share_relations import within
from weft.plan.canonical import normalised, with_ordered_operands, without_names
from weft.plan.event_time import QueryStart, RunningQuery
from weft.plan.facts import StreamFacts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import RelationNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.state.commits import START, last_commit
from weft.runtime.state.stored_plan import StoredPlan


@dataclass(frozen=True)
class Project:
    """What is known of the queries that are explained, if they are those of a project.

    Those that have not begun begin in cycle `following`. `kept_apart` has the reasons of queries that share nothing
    although they could; `measured` are the rows that are kept of logs and of joins.
    """

    catalog: Catalog | None = None
    begun: Mapping[str, BegunQuery] = field(default_factory=dict)
    starts: Mapping[str, QueryStart] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    following: int = 0
    evaluators: Mapping[str, str] = field(default_factory=dict)
    kept_apart: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: Catalog) -> Project:
        """A project as it was last committed."""
        commit, numbers = last_commit(catalog.path.parent) or START, catalog.query_numbers()
        begun = {name: state for name, state in commit.queries.items() if numbers.get(name) == state.number}
        off = dict.fromkeys(() if catalog.settings().sharing else numbers.keys() - begun.keys(), "sharing is off")
        apart = {name: "sharing was off when it began" for name, state in begun.items() if not state.shared}
        return cls(
            catalog,
            begun,
            {name: state.start for name, state in begun.items()},
            numbers,
            commit.cycle + 1,
            commit.evaluators,
            apart | off,
            {str(log): sum(each.all_rows for each in some) for log, some in commit.logs.items()},
        )

    def plan(self, queries: Sequence[Query], streams: Mapping[str, StreamFacts]) -> SharedPlan:
        """The plan that runs these queries, or that will in the next cycle."""
        before = EMPTY if self.catalog is None else StoredPlan(self.catalog).load()
        return optimise(self._asked(queries), self._facts(streams), before)

    def steps(self, queries: Sequence[Query], streams: Mapping[str, StreamFacts]) -> list[tuple[str, SharedPlan]]:
        """The plan after each rule, if all is planned from the beginning."""
        return list(steps(self._asked(queries), self._facts(streams)))

    def _facts(self, streams: Mapping[str, StreamFacts]) -> Facts:
        facts = Facts(
            cycle=self.following,
            sharing=self.catalog is None or self.catalog.settings().sharing,
            begun=self.begun,
            evaluators=self.evaluators,
            streams=streams,
        )
        return facts if self.catalog is None else replace(facts, settings=self.catalog.settings())

    def _asked(self, queries: Sequence[Query]) -> dict[str, RunningQuery]:
        return {each.name: self._running(each, number) for number, each in enumerate(queries)}

    def _running(self, query: Query, number: int) -> RunningQuery:
        """A query as the engine knows it, or will."""
        start = self.starts.get(query.name, QueryStart(self.numbers.get(query.name, number), self.following, {}))
        return RunningQuery(replace(query, relation=normalised(query.relation)), start)


#: A project of which nothing is known.
NOT_RUN = Project()


def relations_of(plan: SharedPlan, name: str) -> tuple[RelationNode, ...]:
    """The relations of a query, innermost first, with the names that its user gave."""
    output, query = plan.outputs[name], plan.queries[name]
    relation: Relation = query.query.relation
    nodes = {}
    if output.is_shared and not output.form:
        # Operands stand where they stand in the plan, which knows no names.
        relation = with_ordered_operands(relation, lambda each: dumps(without_names(each)))
    elif output.form:
        root = plan.nodes[output.inputs[0]]
        assert isinstance(root, RelationNode)
        relation = root.relation
    for named, id_, _ in within(relation, output.node_id, output.start):
        node = plan.nodes[LogId(LogKind.ROWS, id_.text)]
        assert isinstance(node, RelationNode)
        nodes[id_.text] = replace(node, relation=named)
    return tuple(nodes.values())


def why_not_woven(relation: Relation) -> str | None:
    """Why a relation shares no partials; None if it does."""
    try:
        woven(relation)
    except NotWoven as reason:
        return str(reason)
    return None
