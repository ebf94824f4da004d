"""The weave of one stream: its reduction, and the trees that answer the queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from weft.algebra import Stream, Window
from weft.engine.errors import EngineError
from weft.engine.woven.answers import Closed
from weft.engine.woven.groups import Grouping, grouped
from weft.engine.woven.measures import Measure, rows_counted
from weft.engine.woven.numbering import KeyNumbers
from weft.engine.woven.partials import Partials
from weft.engine.woven.reduction import Reduction, reduction
from weft.engine.woven.rollup import RollUp
from weft.engine.woven.shape import Woven
from weft.engine.woven.tree import Groups, Tree, TreeSpec, concatenated
from weft.plan.clockwork import first_open_start

#: So many keys are numbered before anybody looks how many of them are still live.
_MANY_KEYS = 100_000


@dataclass
class _Cohort:
    """The trees of queries that take the same rows and group them by the same keys."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    measures: dict[str, Measure] = field(default_factory=dict)
    trees: list[Tree] = field(default_factory=list)


class StreamWeave:
    """What the woven queries of one stream share."""

    def __init__(self, stream: Stream, queries: Mapping[str, Woven], before: StreamWeave | None = None) -> None:
        self.stream = stream
        self.queries = dict(queries)
        self.reduction: Reduction = reduction(stream, queries.values())
        self.grouping: Grouping = grouped(queries)
        self._numbers: dict[tuple[str, ...], KeyNumbers] = dict(before._numbers) if before else {}
        self._cohorts: dict[tuple[frozenset[str], tuple[str, ...]], _Cohort] = {}
        self._trees: dict[TreeSpec, Tree] = {}
        #: Trees that are new, and know nothing yet of what came before.
        self._fresh: set[Tree] = set()
        measures = {each.name: each for query in queries.values() for each in query.all_measures}
        for spec, chosen in self.grouping.kernels.items():
            known = before._trees.get(spec) if before else None
            if known is None:
                statistics = {name: measures[name].statistic for name in spec.measures}
                known = Tree(spec, statistics, {name: choice.kernel for name, choice in chosen.items()})
                self._fresh.add(known)
            self._trees[spec] = known
            self._numbers.setdefault(spec.keys, KeyNumbers(len(spec.keys)))
            name = spec.conditions, spec.keys
            cohort = self._cohorts.setdefault(name, _Cohort(tuple(sorted(spec.conditions)), spec.keys))
            cohort.trees.append(known)
            cohort.measures |= {measure: measures[measure] for measure in spec.measures}
        self._tree_of = {name: self._trees[spec] for name, spec in self.grouping.tree_of.items()}

    def needed_since(self, watermark: int | None) -> int | None:
        """The least clock that an open window, or one that a late row can reach, still needs; None for all."""
        if watermark is None:
            return None
        starts = (first_open_start(each.window, watermark) for each in self.queries.values())
        return min(start for start in starts if start is not None)

    def key_counts(self) -> dict[tuple[str, ...], int]:
        """How many different keys each grouping has had since numbers were last handed out."""
        return {keys: len(numbers) for keys, numbers in self._numbers.items()}

    @property
    def is_overgrown(self) -> bool:
        """Whether most keys that have a number have no partials any more: numbers are best handed out anew."""
        live: dict[tuple[str, ...], int] = {}
        for tree in self._trees.values():
            live[tree.spec.keys] = max(live.get(tree.spec.keys, 0), tree.number_of_keys)
        return any(len(each) > _MANY_KEYS and len(each) > 4 * live.get(keys, 0) for keys, each in self._numbers.items())

    def check_memory(self, arrived: Partials, limit: int) -> None:
        """Refuse partials whose keys would need more memory than the limit, before any of it is taken."""
        keys = {each: arrived.number_of_keys(each) for each in {tree.spec.keys for tree in self._trees.values()}}
        needed = {tree: tree.bytes_for(keys[tree.spec.keys]) for tree in self._trees.values()}
        total = sum(needed.values())
        if total > limit:
            dearest = max(needed, key=lambda tree: needed[tree])
            names = [name for name, tree in self._tree_of.items() if tree is dearest]
            raise EngineError(
                f"the open windows of stream '{self.stream.name}' need about {total / 1e9:,.1f} GB in the driver, and "
                f"max_state_mb allows {limit / 1e9:,.1f}; {needed[dearest] / 1e9:,.1f} of them are for "
                f"{', '.join(names[:5])}{' and others' if len(names) > 5 else ''}: SET max_state_mb higher, or drop "
                "queries with long ranges over many keys; nothing of this cycle was committed"
            )

    def remember(self, history: Iterable[Partials], watermark: int | None) -> None:
        """Bring trees that are new to where the others are, from the partials that are kept."""
        if not self._fresh:
            return
        for partials in history:
            self._feed(partials, watermark, None, self._fresh)
        for tree in self._fresh:
            tree.take(None, watermark, watermark)
        self._fresh = set()

    def advance(self, arrived: Partials | None, before: int | None, until: int | None) -> dict[str, Closed]:
        """Take in a cycle's partials and go on to its watermark: what has closed for each query, if anything has."""
        closed: dict[Tree, dict[Window, list[Groups]]] = {}
        if arrived is not None and len(arrived):
            closed = self._feed(arrived, before, until, None)
        for tree in self._trees.values():
            if tree not in closed:
                closed[tree] = tree.take(None, before, until)
        shared: dict[tuple[Tree, Window], Closed] = {}
        answers = {}
        for name, query in self.queries.items():
            tree = self._tree_of[name]
            groups = closed[tree].get(query.window)
            if groups:
                place = tree, query.window
                if place not in shared:
                    shared[place] = self._closed(tree.spec, groups)
                answers[name] = shared[place]
        return answers

    def _feed(
        self, partials: Partials, before: int | None, until: int | None, wanted: set[Tree] | None
    ) -> dict[Tree, dict[Window, list[Groups]]]:
        """Hand partials to the trees that are wanted, or to all of them."""
        grouped_by: dict[tuple[str, ...], RollUp] = {}
        closed = {}
        for cohort in self._cohorts.values():
            trees = [tree for tree in cohort.trees if wanted is None or tree in wanted]
            if not trees or not partials.has(cohort.conditions, cohort.keys):
                continue
            if cohort.keys not in grouped_by:
                columns = [partials.key(key) for key in cohort.keys]
                numbers = self._numbers[cohort.keys].numbers(columns, len(partials))
                grouped_by[cohort.keys] = RollUp(partials, numbers)
            rolled = grouped_by[cohort.keys].cohort(cohort.conditions, cohort.measures, rows_counted().name)
            for tree in trees:
                closed[tree] = tree.take(rolled, before, until)
        return closed

    def _closed(self, spec: TreeSpec, groups: list[Groups]) -> Closed:
        ends = np.concatenate([each.ends for each in groups])
        keys: list[pa.Array] = self._numbers[spec.keys].values(np.concatenate([each.keys for each in groups]))
        records = {name: concatenated([each.records[name] for each in groups]) for name in spec.measures}
        return Closed(ends, keys, records)
