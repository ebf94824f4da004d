"""What EXPLAIN says of woven queries: the same decisions as the stage makes them, with the reasons and prices.

Nothing runs here and no Spark session is needed: everything follows from the queries that are registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.aggregation.choice import Choice
from weft.aggregation.cost import operations_per_edge
from weft.aggregation.demand import demand
from weft.aggregation.kernels import ALGORITHMS
from weft.algebra import Query, Stream
from weft.algebra.clocks import clock_type
from weft.catalog import Catalog
from weft.engine.readable import readable
from weft.engine.woven.cells import edges_of
from weft.engine.woven.groups import Grouping, grouped
from weft.engine.woven.groups import asked_of as asked
from weft.engine.woven.partials import CELL, LATEST, ROWS
from weft.engine.woven.reduction import REDUCED_CLOCK, Reduction, reduction
from weft.engine.woven.shape import NotWoven, Woven, woven
from weft.engine.woven.tree import TreeSpec
from weft.optimizer.plan_cost import Levels, by_operations, reading_cost
from weft.optimizer.weave_explain import NearestNeighbour, nearest_neighbours
from weft.optimizer.woven_plan import plan_of
from weft.plan.normal import normalised
from weft.plan.sharing import (
    Apart,
    Cohort,
    KernelChoice,
    SharedReduction,
    SharedStream,
    SharedTree,
    Sharing,
    WovenQuery,
)
from weft.windows import edge_rate, shared_edges


def sharing(
    queries: Sequence[Query], rates: Mapping[str, Fraction] | None = None, apart: Mapping[str, str] | None = None
) -> Sharing:
    """What some queries share if they run together.

    `rates` has the rows per tick of streams that have run, `apart` the reasons of queries that share nothing although
    they could.
    """
    shapes: dict[str, dict[str, Woven]] = {}
    streams: dict[str, Stream] = {}
    not_woven: dict[str, str] = {}
    for query in queries:
        try:
            shape = woven(replace(query, relation=normalised(query.relation)))
            if apart and query.name in apart:
                raise NotWoven(apart[query.name])
        except NotWoven as reason:
            not_woven[query.name] = str(reason)
        else:
            source = shape.select.inputs[0].source
            assert isinstance(source, Stream)
            streams[source.name] = source
            shapes.setdefault(source.name, {})[query.name] = shape
    explained = []
    found: dict[str, WovenQuery] = {}
    for name, of_stream in shapes.items():
        parts = _StreamInParts.of(streams[name], of_stream, (rates or {}).get(name))
        explained.append(parts.stream())
        found |= {each.name: each for each in parts.queries(explained[-1])}
    return Sharing(
        tuple(explained), {query.name: found[query.name] for query in queries if query.name in found}, not_woven
    )


def kept_apart(catalog: Catalog) -> dict[str, str]:
    """The queries of a project that sharing was off for when they began, or would be if they began now, and why."""
    from weft.engine.status import last_commit

    commit = last_commit(catalog.path.parent)
    begun = {} if commit is None else commit.queries
    off = catalog.setting("sharing", "on") == "off"
    reasons = {}
    for name, number in catalog.query_numbers().items():
        state = begun.get(name)
        if state is None or state.number != number:
            if off:
                reasons[name] = "sharing is off"
        elif not state.woven:
            reasons[name] = "sharing was off when it began"
    return reasons


@dataclass(frozen=True)
class _CohortInParts:
    """The trees of one cohort, and the number of the first of them."""

    first: int
    specs: tuple[TreeSpec, ...]

    def numbered(self) -> Iterator[tuple[int, TreeSpec]]:
        return enumerate(self.specs, start=self.first)


@dataclass(frozen=True)
class _StreamInParts:
    """What is known of one stream's weave while it is being explained."""

    source: Stream
    shapes: Mapping[str, Woven]
    rate: Fraction | None
    grouping: Grouping
    members: Mapping[TreeSpec, tuple[str, ...]]
    cohorts: tuple[_CohortInParts, ...]
    edge_rate: Fraction

    @classmethod
    def of(cls, stream: Stream, shapes: Mapping[str, Woven], rate: Fraction | None) -> _StreamInParts:
        grouping = grouped(shapes)
        members: dict[TreeSpec, list[str]] = {}
        for name in shapes:
            members.setdefault(grouping.tree_of[name], []).append(name)
        by_cohort: dict[tuple[frozenset[str], tuple[str, ...]], list[TreeSpec]] = {}
        for spec in members:
            by_cohort.setdefault((spec.conditions, spec.keys), []).append(spec)
        cohorts, first = [], 0
        for specs in by_cohort.values():
            cohorts.append(_CohortInParts(first, tuple(specs)))
            first += len(specs)
        return cls(
            stream,
            shapes,
            rate,
            grouping,
            {spec: tuple(names) for spec, names in members.items()},
            tuple(cohorts),
            edge_rate(edges_of(each.window for each in shapes.values())),
        )

    def stream(self) -> SharedStream:
        strangers = _Strangers(self)
        return SharedStream(
            self.source.name,
            clock_type(self.source),
            self.rate,
            self._reduction(),
            tuple(self._cohort(each, strangers) for each in self.cohorts),
        )

    def queries(self, stream: SharedStream) -> Iterator[WovenQuery]:
        rows = self.rate or Fraction(0)
        alone = self._alone()
        for tree in stream.trees:
            # Rows are read for all queries of the stream, partials for all of the tree.
            reading = rows / len(self.shapes) + tree.reading_cost / len(tree.queries)
            finals = sum((alone[name] for name in tree.queries), Fraction(0))
            for name in tree.queries:
                part = alone[name] / finals if finals else Fraction(1, len(tree.queries))
                yield WovenQuery(name, stream.name, tree, reading + part * tree.final_cost, rows + alone[name])

    def _alone(self) -> dict[str, Fraction]:
        """What the kernels of each query would spend if there were no other."""
        known: dict[object, Fraction] = {}
        costs = {}
        for name, shape in self.shapes.items():
            likes = shape.window, shape.all_measures, bool(shape.keys)
            if likes not in known:
                grouping = grouped({name: shape})
                known[likes] = _final_cost(grouping.tree_of[name], grouping)
            costs[name] = known[likes]
        return costs

    def readable(self, text: str) -> str:
        return readable(text, self.source)

    def _reading(self) -> Fraction:
        """What a tree pays for reading the partials of the finest cut."""
        trees = len(self.members)
        return reading_cost(trees, Fraction(0), self.edge_rate, Levels.THREE, by_operations()) / trees

    def _reduction(self) -> SharedReduction:
        built = reduction(self.source, self.shapes.values())
        layout = built.layout
        return SharedReduction(
            tuple(sorted((each.modulus, each.residue) for each in edges_of(s.window for s in self.shapes.values()))),
            self.edge_rate,
            tuple(self.readable(each) for each in layout.decoders),
            layout.signature_columns,
            tuple(self.readable(each) for each in layout.keys),
            tuple(self.readable(each) for each in layout.aggregates),
            _sql(built, self.source),
        )

    def _cohort(self, cohort: _CohortInParts, strangers: _Strangers) -> Cohort:
        nearest = self._nearest(cohort)
        trees = [
            SharedTree(
                number,
                spec.windows,
                edge_rate(shared_edges(spec.windows)),
                tuple(self._kernel(name, choice) for name, choice in self.grouping.kernels[spec].items()),
                self.members[spec],
                _final_cost(spec, self.grouping),
                self._reading(),
                nearest.get(number) or strangers.nearest_to(number),
            )
            for number, spec in cohort.numbered()
        ]
        first = cohort.specs[0]
        conditions = tuple(sorted(self.readable(each) for each in first.conditions))
        return Cohort(conditions, tuple(self.readable(each) for each in first.keys), tuple(trees))

    def _nearest(self, cohort: _CohortInParts) -> dict[int, Apart]:
        """For each tree of a cohort the one it would best be merged with, weighed as weaving weighs it."""
        if len(cohort.specs) == 1:
            return {}
        partition = [[asked(self.shapes[name]) for name in self.members[spec]] for spec in cohort.specs]
        plan = plan_of(partition, Fraction(0), Levels.THREE, by_operations())
        return {
            cohort.first + place: _weighed(nearest, cohort.first) for place, nearest in nearest_neighbours(plan).items()
        }

    def _kernel(self, measure: str, choice: Choice) -> KernelChoice:
        left_out = {ALGORITHMS[name].title: why for name, why in choice.left_out.items()}
        return KernelChoice(self.readable(measure), ALGORITHMS[choice.kernel].title, choice.reason, left_out)


def _final_cost(spec: TreeSpec, grouping: Grouping) -> Fraction:
    """What the kernels of a tree spend: each of them answers all windows of the tree."""
    asked_of_all, rate = demand(spec.windows), edge_rate(shared_edges(spec.windows))
    kernels = Counter(choice.kernel for choice in grouping.kernels[spec].values())
    spent = (count * Fraction(operations_per_edge(kernel, asked_of_all, rate)) for kernel, count in kernels.items())
    return rate * sum(spent, Fraction(0))


def _weighed(nearest: NearestNeighbour, first: int) -> Apart:
    reason = "final aggregation would cost more, and reading would not save as much"
    if nearest.added < nearest.saved:
        reason = "weaving merges trees two by two, and did not come by this pair"
    return Apart(first + nearest.group, reason, nearest.saved, nearest.added)


class _Strangers:
    """The nearest tree of another cohort: one that differs in as little as possible, the first of equals."""

    def __init__(self, parts: _StreamInParts) -> None:
        self._parts = parts
        self._specs = [(number, spec) for cohort in parts.cohorts for number, spec in cohort.numbered()]
        self._like: dict[object, list[int]] = {}
        for number, spec in self._specs:
            for likeness in _likenesses(spec):
                known = self._like.setdefault(likeness, [])
                # Two of different cohorts are enough: one of them is a stranger to whoever asks.
                if all(_cohort(self._specs[other][1]) != _cohort(spec) for other in known) and len(known) < 2:
                    known.append(number)

    def nearest_to(self, number: int) -> Apart | None:
        own = self._specs[number][1]
        for likeness in _likenesses(own):
            for other in self._like[likeness]:
                spec = self._specs[other][1]
                if _cohort(spec) != _cohort(own):
                    return Apart(other, self._difference(own, spec))
        return None

    def _difference(self, own: TreeSpec, other: TreeSpec) -> str:
        differences = []
        if own.conditions != other.conditions:
            rows = " and ".join(sorted(map(self._parts.readable, other.conditions)))
            differences.append(f"it takes {f'rows with {rows}' if rows else 'all rows'}")
        if own.keys != other.keys:
            keys = ", ".join(map(self._parts.readable, other.keys))
            differences.append(f"it groups by {keys or 'nothing'}")
        return " and ".join(differences)


def _cohort(spec: TreeSpec) -> tuple[frozenset[str], tuple[str, ...]]:
    return spec.conditions, spec.keys


def _likenesses(spec: TreeSpec) -> Iterator[object]:
    """What another tree may have in common with one, the most telling first."""
    for window in spec.windows:
        yield spec.keys, window
    yield spec.keys
    yield spec.conditions
    yield None


def _sql(built: Reduction, stream: Stream) -> str:
    """The reduction as one statement; the engine hands Spark the same expressions one by one."""
    layout = built.layout
    groups = zip(built.groups, layout.group_names, strict=True)
    aggregates = zip(layout.aggregates, layout.aggregate_names, strict=True)
    columns = [
        f"{built.cell} AS {CELL}",
        *(f"{text} AS {name}" for text, name in groups),
        f"count(1) AS {ROWS}",
        f"max({REDUCED_CLOCK}) AS {LATEST}",
        *(f"{text} AS {name}" for text, name in aggregates),
    ]
    rows = f"SELECT *, {built.clock} AS {REDUCED_CLOCK} FROM {stream.name}"
    return "\n".join(
        [
            "SELECT",
            *(f"  {each}{',' * (place < len(columns))}" for place, each in enumerate(columns, start=1)),
            f"FROM ({rows})",
            f"GROUP BY {', '.join([CELL, *layout.group_names])}",
        ]
    )
