"""Window aggregates as EXPLAIN describes them: the decisions of the stage, with reasons and prices.

Nothing runs here and no Spark session is needed: everything follows from the queries that are registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from weft.explain.project import NOT_RUN, Project, why_not_woven
from weft.explain.query_text import window_document
from weft.expressions.spark_expressions import with_names
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel_cost import cost_per_tick, demand
from weft.optimizer.aggregates.stream_shapes import REDUCED_CLOCK, Woven
from weft.optimizer.rules.indexes import stream_shape
from weft.optimizer.rules.share_reductions import readers_over
from weft.optimizer.rules.weave_windows import CohortId, terms_of
from weft.optimizer.weave import window_trees
from weft.optimizer.weave.dendrogram import nearest_neighbours
from weft.plan import nodes as plan_nodes
from weft.plan.facts import NOT_MEASURED, Measurements, key_set
from weft.plan.nodes import CohortKey, Evaluator, ReduceNode, RelationNode, TreeSpec, WindowTreeNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.stages.statistics import rates
from weft.runtime.stages.windows.partials import LATEST, LEAST
from weft.runtime.stages.windows.reduction import Reduction, reduction
from weft.windows.counting import edge_rate
from weft.windows.slicing import shared_edges


def sharing(
    queries: Sequence[Query], plan: SharedPlan, measured: Measurements = NOT_MEASURED, project: Project = NOT_RUN
) -> Sharing:
    """What some queries share if they run together, but for the network."""
    not_woven = {each.name: reason for each in queries if (reason := _why_not(each, plan, project)) is not None}
    streams = []
    found: dict[str, WovenQuery] = {}
    rate_of = rates(measured)
    for reduction_node in sorted(plan.of(ReduceNode), key=lambda each: _first_reader(plan, each)):
        description = _StreamDescription(plan, reduction_node, rate_of.get(reduction_node.stream))
        if description.shapes:
            streams.append(description.stream())
            found |= {each.name: each for each in description.queries(streams[-1])}
    listed = [found[query.name] for query in queries if query.name in found]
    listed.sort(key=lambda each: isinstance(each.tree, RunningCohort))
    return Sharing(tuple(streams), {each.name: each for each in listed}, not_woven)


def _why_not(query: Query, plan: SharedPlan, project: Project) -> str | None:
    """Why a query is not answered from partials; None if it is."""
    if not query.sharing:
        return "it was created with SHARING OFF"
    node = plan.nodes[plan.outputs[query.name].inputs[0]]
    assert isinstance(node, RelationNode)
    if node.evaluator is Evaluator.WINDOWS:
        return None
    return why_not_woven(node.relation) or project.kept_apart.get(query.name, "it began like this")


def _first_reader(plan: SharedPlan, node: ReduceNode) -> int:
    names = (name for each in readers_over(plan, node.stream) for name in plan.queries_of(each.id))
    return min((plan.queries[name].start.number for name in names), default=0)


class _StreamDescription:
    """What is planned over one stream, while it is being described."""

    def __init__(self, plan: SharedPlan, node: ReduceNode, rate: Fraction | None) -> None:
        self._plan, self._node, self.rate, self.facts = plan, node, rate, node.facts
        readers = sorted(
            ((name, each) for each in readers_over(plan, node.stream) for name in plan.queries_of(each.id)),
            key=lambda pair: (plan.queries[pair[0]].start.number, pair[0]),
        )
        #: The shapes of the queries that are answered from partials, by name.
        self.shapes = {name: stream_shape(each) for name, each in readers}
        self._windowed = {name: each for name, each in self.shapes.items() if not each.is_running}
        #: The queries of each tree. Trees are numbered in the order of their cohorts.
        self._members: dict[TreeSpec, list[str]] = {}
        self._trees: dict[TreeSpec, WindowTreeNode] = {}
        for name, each in readers:
            tree = plan.nodes[each.inputs[0]]
            if isinstance(tree, WindowTreeNode):
                self._members.setdefault(tree.spec, []).append(name)
                self._trees[tree.spec] = tree
        by_cohort = {_cohort(spec): number for number, spec in reversed([*enumerate(self._members)])}
        self._members = dict(sorted(self._members.items(), key=lambda item: by_cohort[_cohort(item[0])]))
        self._numbers = {spec: number for number, spec in enumerate(self._members)}

    @property
    def source(self) -> Stream:
        source = next(iter(self.shapes.values())).select.inputs[0].source
        assert isinstance(source, Stream)
        return source

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
            for (conditions, keys), names in _cohorts(running).items()
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
                spec = TreeSpec(frozenset(), shape.keys, (shape.window,), tuple(m.name for m in shape.all_measures))
                keys = window_trees.number_of_keys(shape.keys, self.facts)
                kernels = window_trees.kernels_of(spec, {each.name: each for each in shape.all_measures}, keys)
                known[likes] = self._final_cost(spec, [each.kernel for each in kernels.values()])
            costs[name] = known[likes]
        return costs

    def readable(self, text: str) -> str:
        return with_names(text, self.source)

    def _all_readable(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self.readable, texts))

    def _reduction(self) -> SharedReduction:
        built, edges = reduction(self.source, self._node), shared_edges(self._node.windows)
        layout = built.layout
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
        partition = [[window_trees.asked_of(self.shapes[name]) for name in self._members[spec]] for spec in specs]
        shapes = {name: self.shapes[name] for spec in specs for name in self._members[spec]}
        cohort = CohortId(self._trees[first].log, *_cohort(first))
        weighed_by = terms_of(self._plan, cohort, shapes)
        apart = dict(of_other_cohorts)
        if len(specs) > 1:
            for position, (nearest, added) in nearest_neighbours(partition, weighed_by.costing).items():
                apart[specs[position]] = _weighed(self._numbers[first] + nearest, weighed_by.reading, added)
        trees = (
            SharedTree(
                self._numbers[spec],
                tuple(window_document(each, clock) for each in spec.windows),
                edge_rate(shared_edges(spec.windows)),
                tuple(map(self._kernel, spec.measures, self._trees[spec].kernels)),
                tuple(self._members[spec]),
                self._final_cost(spec, [each.kernel for each in self._trees[spec].kernels]),
                weighed_by.reading,
                apart.get(spec),
            )
            for spec in specs
        )
        return Cohort(
            tuple(sorted(self._all_readable(first.conditions))),
            self._all_readable(first.keys),
            self._host(self._trees[first]),
            tuple(trees),
        )

    def _host(self, tree: WindowTreeNode) -> str | None:
        """Where the kernels of a cohort live and why, if there is something to say about it."""
        if tree.on_executors:
            return f"on the executors: {tree.host.reason}"
        return f"in the driver: {tree.host.reason}" if tree.spec.keys and "kernels = " in tree.host.reason else None

    def _final_cost(self, spec: TreeSpec, kernels: Sequence[str]) -> Fraction:
        """The cost of a tree's kernels: each of them answers all windows of the tree."""
        asked_of_all, rate = demand(spec.windows), edge_rate(shared_edges(spec.windows))
        keys = window_trees.number_of_keys(spec.keys, self.facts)
        spent = (
            count * cost_per_tick(kernel, asked_of_all, rate, keys=keys) for kernel, count in Counter(kernels).items()
        )
        return sum(spent, Fraction(0))

    def _kernel(self, measure: str, choice: plan_nodes.KernelChoice) -> KernelChoice:
        left_out = {each.what: each.reason for each in choice.decision.alternatives}
        return KernelChoice(self.readable(measure), ALGORITHMS[choice.kernel].title, choice.decision.reason, left_out)


def _weighed(nearest: int, saved: Fraction, added: Fraction) -> Apart:
    """Why the nearest tree of a cohort is another one: what one tree would save in reading, and what it would add."""
    reason = "final aggregation would cost more, and reading would not save as much"
    if added < saved:
        reason = "weaving merges trees two by two, and did not come by this pair"
    return Apart(nearest, reason, saved, added)


def _nearest_of_other_cohorts(numbers: Mapping[TreeSpec, int], readable: Callable[[str], str]) -> dict[TreeSpec, Apart]:
    """For each tree the nearest one of another cohort: the first of those that differ in as little as possible."""
    like: dict[object, dict[CohortKey, TreeSpec]] = {}
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


def _cohorts(shapes: Mapping[str, Woven]) -> dict[CohortKey, list[str]]:
    """The names of the queries that take the same rows and group them by the same keys."""
    alike: dict[CohortKey, list[str]] = {}
    for name, each in shapes.items():
        conditions = frozenset(condition.text for condition in each.conditions)
        alike.setdefault((conditions, each.keys), []).append(name)
    return alike


def _cohort(spec: TreeSpec) -> CohortKey:
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
