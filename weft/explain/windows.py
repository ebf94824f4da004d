"""What EXPLAIN says of woven queries: the same decisions as the stage makes them, with the reasons and prices.

Nothing runs here and no Spark session is needed: everything follows from the queries that are registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.algebra import Query, Stream
from weft.algebra.properties import clock_type
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.choice import Choice
from weft.kernels.cost import MEASURED_PRICES, cost_per_tick
from weft.kernels.demand import demand
from weft.optimizer.plan_cost import Levels
from weft.optimizer.weave_explain import NearestNeighbour, nearest_neighbours
from weft.optimizer.woven_plan import plan_of
from weft.plan.facts import Facts, key_set
from weft.plan.normal import normalised
from weft.plan.sharing import (
    ROW,
    Apart,
    Cohort,
    KernelChoice,
    PlannedFor,
    RunningAggregateQuery,
    RunningCohort,
    SharedReduction,
    SharedStream,
    SharedTree,
    Sharing,
    WovenQuery,
)
from weft.runtime.columnar.rows import with_names
from weft.runtime.stages.windows.kernel_placement import PlacementNotes, no_placement_note
from weft.runtime.stages.windows.partials import LATEST, LEAST
from weft.runtime.stages.windows.reduction import Reduction, edges_of, reduction
from weft.runtime.stages.windows.tree_choice import (
    SOME_KEYS,
    CostTerms,
    TreeChoice,
    choose_trees,
    cost_terms,
    finest_rate,
    lanes_of,
)
from weft.runtime.stages.windows.tree_choice import asked_of as asked
from weft.runtime.stages.windows.window_tree import TreeSpec
from weft.runtime.stages.windows.woven_queries import REDUCED_CLOCK, NotWoven, Woven, woven
from weft.windows import EdgeSet, edge_rate, shared_edges


def sharing(
    queries: Sequence[Query],
    rates: Mapping[str, Fraction] | None = None,
    apart: Mapping[str, str] | None = None,
    facts: Mapping[str, Facts] | None = None,
    hosts: PlacementNotes = no_placement_note,
) -> Sharing:
    """What some queries share if they run together.

    `rates` has the rows per tick of streams that have run, `apart` the reasons of queries that share nothing although
    they could, `facts` what is known of streams, and `hosts` says where the kernels of a key set live.
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
    running: dict[str, RunningAggregateQuery] = {}
    for name, of_stream in shapes.items():
        known = (facts or {}).get(name, Facts())
        parts = _StreamInParts.of(streams[name], of_stream, (rates or {}).get(name), known, hosts)
        explained.append(parts.stream())
        found |= {each.name: each for each in parts.queries(explained[-1])}
        running |= {each.name: each for each in parts.running_queries(explained[-1])}
    return Sharing(
        tuple(explained),
        {query.name: found[query.name] for query in queries if query.name in found},
        {query.name: running[query.name] for query in queries if query.name in running},
        not_woven,
    )


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
    facts: Facts
    hosts: PlacementNotes
    grouping: TreeChoice
    members: Mapping[TreeSpec, tuple[str, ...]]
    cohorts: tuple[_CohortInParts, ...]
    edge_rate: Fraction

    @classmethod
    def of(
        cls, stream: Stream, shapes: Mapping[str, Woven], rate: Fraction | None, facts: Facts, hosts: PlacementNotes
    ) -> _StreamInParts:
        windowed = {name: each for name, each in shapes.items() if not each.is_running}
        grouping = choose_trees(windowed, facts)
        members: dict[TreeSpec, list[str]] = {}
        for name in windowed:
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
            facts,
            hosts,
            grouping,
            {spec: tuple(names) for spec, names in members.items()},
            tuple(cohorts),
            finest_rate(windowed),
        )

    def stream(self) -> SharedStream:
        strangers = _Strangers(self)
        return SharedStream(
            self.source.name,
            clock_type(self.source),
            self.rate,
            self._reduction(),
            tuple(self._cohort(each, strangers) for each in self.cohorts),
            self._running(),
            self._planned_for(),
        )

    def _planned_for(self) -> PlannedFor | None:
        """What the trees are chosen by, if anything has been seen of the stream."""
        keys = {
            text: number
            for spec in self.members
            if (text := key_set(spec.keys)) in self.facts.keys and (number := self.facts.number_of_keys(spec.keys))
        }
        if self.facts.rows_per_tick is None and not keys:
            return None
        by_name = {self.readable(text): number for text, number in sorted(keys.items())}
        return PlannedFor(self.facts.rows_per_tick, self.facts.ticks_per_cycle, by_name)

    def _running(self) -> tuple[RunningCohort, ...]:
        """The queries that never close. Which of them have groups in common depends on when they begin, too."""
        alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for name, shape in self.shapes.items():
            if shape.is_running:
                conditions = tuple(sorted({self.readable(each.text) for each in shape.conditions}))
                alike.setdefault((conditions, shape.keys), []).append(name)
        return tuple(
            RunningCohort(
                conditions,
                tuple(map(self.readable, keys)),
                tuple(dict.fromkeys(self.readable(m.name) for name in names for m in self.shapes[name].all_measures)),
                tuple(names),
            )
            for (conditions, keys), names in alike.items()
        )

    def queries(self, stream: SharedStream) -> Iterator[WovenQuery]:
        rows = (self.rate or Fraction(0)) * ROW
        alone = self._alone()
        for tree in stream.trees:
            # Rows are read for all queries of the stream, partials for all of the tree.
            reading = rows / len(self.shapes) + tree.reading_cost / len(tree.queries)
            finals = sum((alone[name] for name in tree.queries), Fraction(0))
            for name in tree.queries:
                part = alone[name] / finals if finals else Fraction(1, len(tree.queries))
                yield WovenQuery(name, stream.name, tree, reading + part * tree.final_cost, rows + alone[name])

    def running_queries(self, stream: SharedStream) -> Iterator[RunningAggregateQuery]:
        reading = (self.rate or Fraction(0)) * ROW / len(self.shapes)
        for cohort in stream.running:
            yield from (RunningAggregateQuery(name, stream.name, cohort, reading) for name in cohort.queries)

    def _alone(self) -> dict[str, Fraction]:
        """What the kernels of each query would spend if there were no other."""
        known: dict[object, Fraction] = {}
        costs = {}
        for name, shape in self.shapes.items():
            if shape.is_running:
                continue
            likes = shape.window, shape.all_measures, shape.keys
            if likes not in known:
                grouping = choose_trees({name: shape}, self.facts)
                known[likes] = self._final_cost(grouping.tree_of[name], grouping)
            costs[name] = known[likes]
        return costs

    def readable(self, text: str) -> str:
        return with_names(text, self.source)

    def _terms(self, cohort: _CohortInParts) -> CostTerms:
        """What the trees of a cohort were weighed by."""
        everyone = (asked(self.shapes[name]) for spec in cohort.specs for name in self.members[spec])
        return cost_terms(cohort.specs[0].keys, lanes_of(everyone), self.edge_rate, self.facts)

    def _edges(self) -> EdgeSet:
        return edges_of(each.window for each in self.shapes.values() if not each.is_running)

    def _reduction(self) -> SharedReduction:
        built = reduction(self.source, self.shapes.values())
        layout = built.layout
        return SharedReduction(
            tuple(sorted((each.modulus, each.residue) for each in self._edges())),
            self.edge_rate,
            tuple(self.readable(each) for each in layout.decoders),
            layout.signature_columns,
            tuple(self.readable(each) for each in layout.keys),
            tuple(self.readable(each) for each in layout.aggregates),
            _sql(built, self.source),
        )

    def _cohort(self, cohort: _CohortInParts, strangers: _Strangers) -> Cohort:
        nearest, reading = self._nearest(cohort), self._terms(cohort).reading
        trees = [
            SharedTree(
                number,
                spec.windows,
                edge_rate(shared_edges(spec.windows)),
                tuple(self._kernel(name, choice) for name, choice in self.grouping.kernels[spec].items()),
                self.members[spec],
                self._final_cost(spec, self.grouping),
                reading,
                nearest.get(number) or strangers.nearest_to(number),
            )
            for number, spec in cohort.numbered()
        ]
        first = cohort.specs[0]
        conditions = tuple(sorted(self.readable(each) for each in first.conditions))
        keys = tuple(self.readable(each) for each in first.keys)
        return Cohort(conditions, keys, tuple(trees), self.hosts(self.source.name, first.keys))

    def _nearest(self, cohort: _CohortInParts) -> dict[int, Apart]:
        """For each tree of a cohort the one it would best be merged with, weighed as weaving weighs it."""
        if len(cohort.specs) == 1:
            return {}
        partition = [[asked(self.shapes[name]) for name in self.members[spec]] for spec in cohort.specs]
        terms = self._terms(cohort)
        plan = plan_of(partition, terms.reading, Levels.TWO, terms.costing)
        return {
            cohort.first + place: _weighed(nearest, cohort.first) for place, nearest in nearest_neighbours(plan).items()
        }

    def _final_cost(self, spec: TreeSpec, grouping: TreeChoice) -> Fraction:
        """What the kernels of a tree spend: each of them answers all windows of the tree."""
        asked_of_all, rate = demand(spec.windows), edge_rate(shared_edges(spec.windows))
        keys = self.facts.number_of_keys(spec.keys) or SOME_KEYS
        kernels = Counter(choice.kernel for choice in grouping.kernels[spec].values())
        spent = (
            count * cost_per_tick(kernel, asked_of_all, rate, keys=keys, prices=MEASURED_PRICES)
            for kernel, count in kernels.items()
        )
        return sum(spent, Fraction(0))

    def _kernel(self, measure: str, choice: Choice) -> KernelChoice:
        left_out = {ALGORITHMS[name].title: why for name, why in choice.left_out.items()}
        return KernelChoice(self.readable(measure), ALGORITHMS[choice.kernel].title, choice.reason, left_out)


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
    aggregates = zip(layout.aggregates, layout.aggregate_names, strict=True)
    columns = [
        *(f"{text} AS {name}" for name, text in built.grouping.items()),
        f"max({REDUCED_CLOCK}) AS {LATEST}",
        *([f"min({REDUCED_CLOCK}) AS {LEAST}"] if built.tells_least else []),
        *(f"{text} AS {name}" for text, name in aggregates),
    ]
    prepared = ", ".join(f"{text} AS {name}" for name, text in built.prepared.items())
    rows = f"SELECT *, {prepared} FROM {stream.name}"
    return "\n".join(
        [
            "SELECT",
            *(f"  {each}{',' * (place < len(columns))}" for place, each in enumerate(columns, start=1)),
            f"FROM ({rows})",
            f"GROUP BY {', '.join(built.grouping)}",
        ]
    )
