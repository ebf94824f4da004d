"""What is known of the queries that are explained: when they began, and which relations they are evaluated as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from weft.algebra import Query, Relation
from weft.algebra.codec import dumps
from weft.catalog import Catalog
from weft.plan.canonical import normalised, with_ordered_operands, without_names
from weft.plan.event_time import QueryStart, RunningQuery
from weft.runtime.stages.operators import (
    Operator,
    OperatorId,
    QueryRoot,
    StageKind,
    operators_of,
    recorded_root,
    roots_of,
    stage_for,
)
from weft.runtime.stages.windows.kernel_placement import PlacementNotes, no_placement_note, recorded_placements
from weft.runtime.stages.windows.woven_queries import NotWoven, woven
from weft.runtime.state.commits import START, last_commit


@dataclass(frozen=True)
class Project:
    """What is known of the queries that are explained, if they are those of a project.

    `starts` are those of queries that have begun; others begin in cycle `following`. `not_woven` and `not_networked`
    have the reasons of queries that share nothing although they could; `measured` are the rows that are kept of logs
    and of joins; `hosts` says where the kernels of a key set live.
    """

    starts: Mapping[str, QueryStart] = field(default_factory=dict)
    following: int = 0
    catalog: Catalog | None = None
    not_woven: Mapping[str, str] = field(default_factory=dict)
    not_networked: Mapping[str, str] = field(default_factory=dict)
    hosts: PlacementNotes = no_placement_note
    measured: Mapping[str, int] = field(default_factory=dict)
    #: What commits say of how queries are evaluated that have begun.
    roots: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: Catalog) -> Project:
        """A project as it was last committed."""
        commit, numbers = last_commit(catalog.path.parent) or START, catalog.query_numbers()
        begun = {name: state for name, state in commit.queries.items() if numbers.get(name) == state.number}
        off = dict.fromkeys(() if catalog.settings().sharing else numbers.keys() - begun.keys(), "sharing is off")
        not_woven, not_networked = (
            {name: "sharing was off when it began" for name, state in begun.items() if not shares(state)} | off
            for shares in (attrgetter("woven"), attrgetter("shared"))
        )
        return cls(
            starts={name: state.start for name, state in begun.items()},
            following=commit.cycle + 1,
            catalog=catalog,
            not_woven=not_woven,
            not_networked=not_networked,
            hosts=recorded_placements(catalog),
            measured={str(log): sum(each.all_rows for each in some) for log, some in commit.logs.items()},
            roots={name: state.root for name, state in begun.items()},
        )

    def registered(self, query: Query) -> RunningQuery:
        """A query as the engine knows it, or will."""
        start = self.starts.get(query.name, QueryStart(0, self.following, {}))
        return RunningQuery(replace(query, relation=normalised(query.relation)), start)

    def with_beginning(self, queries: Sequence[Query]) -> Project:
        """The same project, with how the next cycle will put queries together that begin with it."""
        beginning = {each.name: self.registered(each) for each in queries if each.name not in self.starts}
        found = {name: root.record for name, root in roots_of(beginning, beginning, {}).items() if root.record}
        return replace(self, roots={**self.roots, **found})

    def operators(self, query: Query) -> tuple[Operator, ...]:
        """The relations of a query, with the names that its user gave, where they stand in the engine."""
        registered = self.registered(query)
        root = recorded_root(registered, self.roots.get(query.name, ""))
        if not root.record:
            # Operands stand where they stand in the engine, which knows no names.
            named = with_ordered_operands(registered.query.relation, lambda each: dumps(without_names(each)))
            root = QueryRoot(named, root.id)

        def stage_of(registered: RunningQuery, relation: Relation, id_: OperatorId) -> StageKind:
            return stage_for(relation, id_, registered.start.first, lambda query, _: why_not_woven(query) is None)

        return operators_of({query.name: registered}, {query.name: root}, stage_of)


#: A project of which nothing is known.
NOT_RUN = Project()


def why_not_woven(query: Query) -> str | None:
    """Why a query does not share partials; None if it does."""
    try:
        woven(query)
    except NotWoven as reason:
        return str(reason)
    return None
