"""Window aggregates as EXPLAIN describes them: the decisions of the stage, with reasons and prices.

Nothing runs here and no Spark session is needed: everything follows from the queries that are registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from weft.algebra import Query, Stream
from weft.algebra.properties import clock_type
from weft.explain.plan_description import (
    ROW,
    Apart,
    Cohort,
    KernelChoice,
    PlannedFor,
    RunningCohort,
    SharedReduction,
    SharedStream,
    SharedTree,
    Sharing,
    WovenQuery,
)
from weft.explain.project import NOT_RUN, Project
from weft.explain.query_text import window_document
from weft.expressions.spark_expressions import with_names
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel_choice import ChosenKernel
from weft.kernels.kernel_cost import cost_per_tick, demand
from weft.optimizer.weave.dendrogram import nearest_neighbours
from weft.plan.canonical import normalised
from weft.plan.facts import NOT_MEASURED, Facts, Measurements, key_set
from weft.runtime.stages.statistics import rates
from weft.runtime.stages.windows import tree_choice
from weft.runtime.stages.windows.kernel_placement import PlacementNotes
from weft.runtime.stages.windows.partials import LATEST, LEAST
from weft.runtime.stages.windows.reduction import Reduction, reduction
from weft.runtime.stages.windows.window_tree import TreeSpec
from weft.runtime.stages.windows.woven_queries import REDUCED_CLOCK, NotWoven, Woven, woven
from weft.windows.counting import edge_rate
from weft.windows.slicing import shared_edges


def sharing(queries: Sequence[Query], measured: Measurements = NOT_MEASURED, project: Project = NOT_RUN) -> Sharing:
    """What some queries share if they run together, but for the network."""
    shapes: dict[str, dict[str, Woven]] = {}
    not_woven: dict[str, str] = {}
    for query in queries:
        try:
            shape = woven(replace(query, relation=normalised(query.relation)))
        except NotWoven as reason:
            not_woven[query.name] = str(reason)
            continue
        if query.name in project.not_woven:
            not_woven[query.name] = project.not_woven[query.name]
        else:
            shapes.setdefault(_stream_of(shape).name, {})[query.name] = shape
    streams = []
    found: dict[str, WovenQuery] = {}
    rate_of = rates(measured)
    for name, of_stream in shapes.items():
        description = _StreamDescription(of_stream, rate_of.get(name), measured.facts.get(name, Facts()), project.hosts)
        streams.append(description.stream())
        found |= {each.name: each for each in description.queries(streams[-1])}
    listed = [found[query.name] for query in queries if query.name in found]
    listed.sort(key=lambda each: isinstance(each.tree, RunningCohort))
    return Sharing(tuple(streams), {each.name: each for each in listed}, not_woven)


def _stream_of(shape: Woven) -> Stream:
    source = shape.select.inputs[0].source
    assert isinstance(source, Stream)
    return source


class _StreamDescription:
    """The grouping of one stream's queries into trees, as the stage decides it, while it is being described."""

    def __init__(self, shapes: Mapping[str, Woven], rate: Fraction | None, facts: Facts, hosts: PlacementNotes) -> None:
        self.source = _stream_of(next(iter(shapes.values())))
        self.shapes, self.rate, self.facts, self.hosts = shapes, rate, facts, hosts
        self._windowed = {name: each for name, each in shapes.items() if not each.is_running}
        self._grouping = tree_choice.choose_trees(self._windowed, facts)
        #: The queries of each tree. Trees are numbered in the order of their cohorts.
        self._members: dict[TreeSpec, list[str]] = {spec: [] for spec in self._grouping.kernels}
        for name, spec in self._grouping.tree_of.items():
            self._members[spec].append(name)
        self._numbers = {spec: number for number, spec in enumerate(self._members)}

    def stream(self) -> SharedStream:
        nearest = _nearest_of_other_cohorts(self._numbers, self.readable)
        return SharedStream(
            self.source.name,
            clock_type(self.source),
            self.rate,
            self._planned_for(),
            self._reduction(),
            tuple(self._described(list(specs), nearest) for _, specs in groupby(self._members, _cohort)),
            self._running(),
        )

    def _planned_for(self) -> PlannedFor | None:
        """The facts that the trees were chosen by, if the stream has been measured."""
        keys = {
            text: number
            for spec in self._members
            if (text := key_set(spec.keys)) in self.facts.keys and (number := self.facts.number_of_keys(spec.keys))
        }
        if self.facts.rows_per_tick is None and not keys:
            return None
        by_name = {self.readable(text): number for text, number in sorted(keys.items())}
        return PlannedFor(self.facts.rows_per_tick, self.facts.ticks_per_cycle, by_name)

    def _running(self) -> tuple[RunningCohort, ...]:
        """The queries that never close. Which of them have groups in common depends on when they begin, too."""
        running = {name: each for name, each in self.shapes.items() if each.is_running}
        return tuple(
            RunningCohort(
                tuple(sorted(self._all_readable(conditions))),
                self._all_readable(keys),
                tuple(dict.fromkeys(self.readable(m.name) for name in names for m in running[name].all_measures)),
                tuple(names),
            )
            for (conditions, keys), names in tree_choice.cohorts(running).items()
        )

    def queries(self, stream: SharedStream) -> Iterator[WovenQuery]:
        rows = (self.rate or Fraction(0)) * ROW
        alone = self._costs_alone()
        for tree in stream.trees:
            # Rows are read for all queries of the stream, partials for all of the tree.
            reading = rows / len(self.shapes) + tree.reading_cost / len(tree.queries)
            finals = sum((alone[name] for name in tree.queries), Fraction(0))
            for name in tree.queries:
                part = alone[name] / finals if finals else Fraction(1, len(tree.queries))
                yield WovenQuery(name, stream.name, tree, reading + part * tree.final_cost, rows + alone[name])
        for cohort in stream.running:
            yield from (WovenQuery(name, stream.name, cohort, rows / len(self.shapes)) for name in cohort.queries)

    def _costs_alone(self) -> dict[str, Fraction]:
        """The cost of each query's kernels if there were no other query."""
        known: dict[object, Fraction] = {}
        costs = {}
        for name, shape in self._windowed.items():
            likes = shape.window, shape.all_measures, shape.keys
            if likes not in known:
                grouping = tree_choice.choose_trees({name: shape}, self.facts)
                known[likes] = self._final_cost(grouping.tree_of[name], grouping)
            costs[name] = known[likes]
        return costs

    def readable(self, text: str) -> str:
        return with_names(text, self.source)

    def _all_readable(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self.readable, texts))

    def _reduction(self) -> SharedReduction:
        built = reduction(self.source, self.shapes.values())
        layout, edges = built.layout, shared_edges(each.window for each in self._windowed.values())
        return SharedReduction(
            tuple(sorted((each.modulus, each.residue) for each in edges)),
            edge_rate(edges) if edges else Fraction(0),
            self._all_readable(layout.decoders),
            layout.signature_columns,
            self._all_readable(layout.keys),
            self._all_readable(layout.aggregates),
            _sql(built, self.source),
        )

    def _described(self, specs: Sequence[TreeSpec], of_other_cohorts: Mapping[TreeSpec, Apart]) -> Cohort:
        first, clock = specs[0], clock_type(self.source)
        partition = [[tree_choice.asked_of(self.shapes[name]) for name in self._members[spec]] for spec in specs]
        weighed_by = self._grouping.terms[_cohort(first)]
        apart = dict(of_other_cohorts)
        if len(specs) > 1:
            for position, (nearest, added) in nearest_neighbours(partition, weighed_by.costing).items():
                apart[specs[position]] = _weighed(self._numbers[first] + nearest, weighed_by.reading, added)
        trees = (
            SharedTree(
                self._numbers[spec],
                tuple(window_document(each, clock) for each in spec.windows),
                edge_rate(shared_edges(spec.windows)),
                tuple(self._kernel(name, choice) for name, choice in self._grouping.kernels[spec].items()),
                tuple(self._members[spec]),
                self._final_cost(spec, self._grouping),
                weighed_by.reading,
                apart.get(spec),
            )
            for spec in specs
        )
        return Cohort(
            tuple(sorted(self._all_readable(first.conditions))),
            self._all_readable(first.keys),
            self.hosts(self.source.name, first.keys),
            tuple(trees),
        )

    def _final_cost(self, spec: TreeSpec, grouping: tree_choice.TreeChoice) -> Fraction:
        """The cost of a tree's kernels: each of them answers all windows of the tree."""
        asked_of_all, rate = demand(spec.windows), edge_rate(shared_edges(spec.windows))
        keys = grouping.terms[_cohort(spec)].keys
        kernels = Counter(choice.kernel for choice in grouping.kernels[spec].values())
        spent = (count * cost_per_tick(kernel, asked_of_all, rate, keys=keys) for kernel, count in kernels.items())
        return sum(spent, Fraction(0))

    def _kernel(self, measure: str, choice: ChosenKernel) -> KernelChoice:
        left_out = {ALGORITHMS[name].title: why for name, why in choice.left_out.items()}
        return KernelChoice(self.readable(measure), ALGORITHMS[choice.kernel].title, choice.reason, left_out)


def _weighed(nearest: int, saved: Fraction, added: Fraction) -> Apart:
    """Why the nearest tree of a cohort is another one: what one tree would save in reading, and what it would add."""
    reason = "final aggregation would cost more, and reading would not save as much"
    if added < saved:
        reason = "weaving merges trees two by two, and did not come by this pair"
    return Apart(nearest, reason, saved, added)


def _nearest_of_other_cohorts(numbers: Mapping[TreeSpec, int], readable: Callable[[str], str]) -> dict[TreeSpec, Apart]:
    """For each tree the nearest one of another cohort: the first of those that differ in as little as possible."""
    like: dict[object, dict[tree_choice.CohortKey, TreeSpec]] = {}
    for spec in numbers:
        for likeness in _likenesses(spec):
            like.setdefault(likeness, {}).setdefault(_cohort(spec), spec)
    found: dict[TreeSpec, Apart] = {}
    for spec in numbers:
        others = (each for likeness in _likenesses(spec) for each in like[likeness].items())
        nearest = next((other for cohort, other in others if cohort != _cohort(spec)), None)
        if nearest is not None:
            found[spec] = Apart(numbers[nearest], _difference(spec, nearest, readable))
    return found


def _difference(own: TreeSpec, other: TreeSpec, readable: Callable[[str], str]) -> str:
    differences = []
    if own.conditions != other.conditions:
        rows = " and ".join(sorted(map(readable, other.conditions)))
        differences.append(f"it takes {f'rows with {rows}' if rows else 'all rows'}")
    if own.keys != other.keys:
        differences.append(f"it groups by {', '.join(map(readable, other.keys)) or 'nothing'}")
    return " and ".join(differences)


def _cohort(spec: TreeSpec) -> tree_choice.CohortKey:
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
