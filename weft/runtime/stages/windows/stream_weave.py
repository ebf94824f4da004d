"""The weave of one stream: its reduction, and the trees that answer the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.algebra import Aggregate, Stream, Window
from weft.kernels.sparse import Crowd
from weft.optimizer.aggregates.stream_shapes import Measure, Woven
from weft.plan.event_time import Clock
from weft.plan.nodes import KeySet, ReduceNode, WindowTreeNode
from weft.runtime.sources.row_judging import closed_for
from weft.runtime.stages.windows.partials import LATEST, LEAST, SLICE, Partials, without_clocks
from weft.runtime.stages.windows.reduction import Reduction, reduction
from weft.runtime.stages.windows.rollup import GroupKeys, RollUp
from weft.runtime.stages.windows.window_answers import ClosedGroups, GroupSelection, kinds_of
from weft.runtime.stages.windows.window_tree import InstanceGroups, WindowTree
from weft.runtime.state.store import MemoryUse
from weft.windows.slicing import oldest_open_start

#: The keys of a grouping that are numbered before it is checked how many of them are still live.
_MANY_KEYS = 100_000

#: An aggregate is computed for all windows of a tree at once if one in this many answers it.
_MANY = 16


class StreamWeave:
    """What the woven queries of one stream share."""

    def __init__(
        self,
        stream: Stream,
        queries: Mapping[str, Woven],
        chosen: Mapping[str, WindowTreeNode],
        before: StreamWeave | None = None,
        *,
        reduce: ReduceNode | None = None,
        away: frozenset[KeySet] = frozenset(),
        newborn: frozenset[str] = frozenset(),
    ) -> None:
        """`chosen` has the trees of aggregates with windows; those of key sets that are `away` are on the executors.

        `reduce` is how rows become partials, if Spark does it.

        Aggregates that are `newborn` answer for what is still to come, and need nothing that is stored.
        """
        self.stream = stream
        self.queries = dict(queries)
        self.chosen = dict(chosen)
        self.reduce = reduce
        self.away = away
        #: The number of keys of each of those, when it was last counted.
        self.keys_away: dict[KeySet, int] = dict(before.keys_away) if before else {}
        #: The queries that have trees; the others never close, and only their rows are reduced here.
        self.windowed = {name: each for name, each in queries.items() if not each.is_running}
        self.running = {name: each for name, each in queries.items() if each.is_running}
        self.kinds = kinds_of({name: each.select for name, each in queries.items()})
        numbers = before._numbers if before else {}
        self._numbers: dict[KeySet, GroupKeys] = {keys: each for keys, each in numbers.items() if keys not in away}
        #: A reused tree may have measures that no query needs any more.
        self._measures: dict[str, Measure] = dict(before._measures) if before else {}
        self._measures |= {each.name: each for query in self.windowed.values() for each in query.all_measures}
        #: By the id of their nodes.
        self._trees: dict[str, WindowTree] = {}
        self._tree_of: dict[str, WindowTree] = {}
        #: New trees, without the partials that came before them.
        self._fresh: set[WindowTree] = set()
        #: The key set whose windows need most memory, if one does.
        self.largest_keys: KeySet | None = None
        members: dict[str, list[str]] = {}
        for name, node in self.chosen.items():
            if node.spec.keys not in away:
                members.setdefault(node.id, []).append(name)
        for names in members.values():
            self._plant(self.chosen[names[0]], names, before, newborn)
        #: The trees of queries that take the same rows and group them by the same keys.
        self._cohorts: dict[tuple[frozenset[str], KeySet], list[WindowTree]] = {}
        for tree in self._trees.values():
            self._cohorts.setdefault((tree.spec.conditions, tree.spec.keys), []).append(tree)
            self._numbers.setdefault(tree.spec.keys, GroupKeys(len(tree.spec.keys)))
        needed = {name for tree in self._trees.values() for name in tree.spec.measures}
        self._measures = {name: each for name, each in self._measures.items() if name in needed}
        #: The aggregates that are worth computing for all windows of a tree at once.
        self._common: dict[WindowTree, Set[Aggregate]] = {}
        for id_, names in members.items():
            tree, of = self._trees[id_], [self.windowed[name] for name in names]
            tree.ask_for({each.window for each in of})
            asked = Counter(each for _, each in {(one.window, each) for one in of for each in one.select.aggregates})
            self._common[tree] = {each for each, count in asked.items() if _MANY * count >= len(tree.spec.windows)}

    def _plant(
        self, node: WindowTreeNode, names: Sequence[str], before: StreamWeave | None, newborn: frozenset[str]
    ) -> None:
        """Have the tree of a node, which answers some aggregates: the one of before, if there is one."""
        tree = before._trees.get(node.id) if before else None
        # A tree that was reused may have measures that none of these aggregates needs.
        measures = tuple(each for each in node.spec.measures if each in self._measures)
        kernels = {each: node.kernel_of[each] for each in measures}
        if tree is None or tree.kernels != kernels:
            statistics = {each: self._measures[each].statistic for each in measures}
            tree = WindowTree(replace(node.spec, measures=measures), statistics, kernels)
            is_fresh = not newborn.issuperset(names)
        else:
            is_fresh = before is not None and tree in before._fresh
        self._trees[node.id] = tree
        self._fresh |= {tree} if is_fresh else set()
        self._tree_of |= dict.fromkeys(names, tree)

    @cached_property
    def reduction(self) -> Reduction:
        """How rows become the partials of all these queries."""
        assert self.reduce is not None, "rows in the driver are partials as they are"
        return reduction(self.stream, self.reduce)

    @cached_property
    def windows(self) -> frozenset[Window]:
        """The windows that close, each once."""
        return frozenset(each.window for each in self.windowed.values())

    def needed_since(self, watermark: int | None) -> int | None:
        """The least clock that an open window, or one that a late row can reach, still needs; None for all."""
        return None if watermark is None else oldest_open_start(*self._cadences, watermark)

    @cached_property
    def _cadences(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The range and the slide of each window, and the end of one of its instances."""
        numbers = [(each.range or 0, each.slide, each.origin + (each.range or 0)) for each in self.windows]
        ranges, slides, ends = np.array(numbers, dtype=np.int64).T
        return ranges, slides, ends

    def key_counts(self) -> dict[tuple[str, ...], int]:
        """The number of different keys of each grouping since numbers were last assigned."""
        return {keys: len(numbers) for keys, numbers in self._numbers.items()} | {
            keys: self.keys_away[keys] for keys in self.away if keys in self.keys_away
        }

    @property
    def is_overgrown(self) -> bool:
        """Whether most numbered keys have no partials any more, so that numbers should be assigned again."""
        live: dict[tuple[str, ...], int] = {}
        for tree in self._trees.values():
            live[tree.spec.keys] = max(live.get(tree.spec.keys, 0), tree.number_of_keys)
        return any(len(each) > _MANY_KEYS and len(each) > 4 * live.get(keys, 0) for keys, each in self._numbers.items())

    @property
    def memory_part(self) -> str:
        return f"the open windows of stream '{self.stream.name}'"

    def memory(self) -> MemoryUse:
        """What the windows take now."""
        return self._memory({tree: tree.bytes_for(tree.crowd()) for tree in self._trees.values()})

    def fit(self, arrived: Partials, room: int) -> MemoryUse:
        """Give every tree the form that is best with what has arrived; return what all of them need then.

        A tree that changes forgets everything, and `remember` must come before `advance`.
        """
        slices, room = len(arrived.distinct_slices[0]), room - self._dictionaries
        keys = {each: arrived.number_of_keys(each) for each in {tree.spec.keys for tree in self._trees.values()}}
        crowds: dict[WindowTree, Crowd] = {}
        for tree in self._trees.values():
            number = keys[tree.spec.keys]
            crowd = crowds[tree] = tree.crowd(number, min(len(arrived), number * slices))
            if tree.is_outgrown_by(crowd):
                tree.forget()
                self._fresh.add(tree)
        needed = {tree: tree.bytes_for(crowd) for tree, crowd in crowds.items()}
        # If there is no room, trees become sparse, those first that save most by it.
        total = sum(needed.values())
        for tree in sorted(needed, key=lambda each: crowds[each].sparse_bytes - needed[each]) if total > room else ():
            saved = needed[tree] - crowds[tree].sparse_bytes
            if total > room and saved > 0:
                needed[tree], total = crowds[tree].sparse_bytes, total - saved
                if tree.save_memory():
                    self._fresh.add(tree)
        by_keys: Counter[KeySet] = Counter()
        for tree, size in needed.items():
            by_keys[tree.spec.keys] += size
        self.largest_keys = next((keys for keys, _ in by_keys.most_common() if keys), None)
        return self._memory(needed)

    def _memory(self, needed: Mapping[WindowTree, int]) -> MemoryUse:
        largest = max(needed, key=lambda tree: needed[tree], default=None)
        return MemoryUse(
            self.memory_part,
            sum(needed.values()) + self._dictionaries,
            0 if largest is None else needed[largest],
            tuple(name for name, tree in self._tree_of.items() if tree is largest),
            "SET kernels = auto, or drop queries with long ranges over many keys",
        )

    @property
    def _dictionaries(self) -> int:
        """The memory that the keys of groups take."""
        return sum(each.bytes_held for each in self._numbers.values())

    def without(self, keys: KeySet) -> StreamWeave:
        """The same weave with the trees of a key set on the executors."""
        away = self.away | {keys}
        return StreamWeave(self.stream, self.queries, self.chosen, self, reduce=self.reduce, away=away)

    def remember(self, history: Iterable[Partials], watermark: int | None) -> None:
        """Bring new trees to where the others are, from the stored partials."""
        if not self._fresh:
            return
        reached = None
        for partials in history:
            # Stored partials are in the order of cycles: trees advance with each piece, and few partials wait.
            newest = int(partials.slices.max()) - self.stream.delay
            reached = newest if reached is None else max(reached, newest)
            until = None if watermark is None else min(watermark, reached)
            self._feed(partials, watermark, until, self._fresh)
        for tree in self._fresh:
            tree.take(None, watermark, watermark)
        self._fresh = set()

    def advance(self, arrived: Partials | None, before: int | None, until: int | None) -> dict[str, GroupSelection]:
        """Take in a cycle's partials and advance to its watermark; returns what has closed, by query."""
        closed: dict[WindowTree, InstanceGroups | None] = {}
        if arrived is not None and len(arrived):
            closed = self._feed(arrived, before, until, None)
        for tree in self._trees.values():
            if tree not in closed:
                closed[tree] = tree.take(None, before, until)
        parts = {tree: {} if groups is None else self._parts(tree, groups) for tree, groups in closed.items()}
        return {name: parts[tree][window] for name, (tree, window) in self._places.items() if window in parts[tree]}

    @cached_property
    def _places(self) -> dict[str, tuple[WindowTree, int]]:
        """The tree of each query, and the position of its window there."""
        trees = self._trees.values()
        positions = {tree: {window: at for at, window in enumerate(tree.spec.windows)} for tree in trees}
        return {name: (tree, positions[tree][self.windowed[name].window]) for name, tree in self._tree_of.items()}

    def _feed(
        self, partials: Partials, before: int | None, until: int | None, wanted: set[WindowTree] | None
    ) -> dict[WindowTree, InstanceGroups | None]:
        grouped_by: dict[KeySet, RollUp] = {}
        closed = {}
        for (conditions, keys), of_cohort in self._cohorts.items():
            trees = [tree for tree in of_cohort if wanted is None or tree in wanted]
            if not trees or not partials.has(conditions, keys):
                continue
            if keys not in grouped_by:
                numbers = self._numbers[keys].numbers([partials.key(key) for key in keys], len(partials))
                grouped_by[keys] = RollUp(partials, numbers)
            measures = {name: self._measures[name] for tree in of_cohort for name in tree.spec.measures}
            rolled = grouped_by[keys].cohort(conditions, measures)
            for tree in trees:
                closed[tree] = tree.take(rolled, before, until)
        return closed

    def _parts(self, tree: WindowTree, groups: InstanceGroups) -> dict[int, GroupSelection]:
        """The groups of a tree, by the positions of their windows."""
        keys: list[pa.Array] = self._numbers[tree.spec.keys].values(groups.block, groups.times)
        starts = groups.ends - tree.ranges[groups.windows]
        closed = ClosedGroups(starts, groups.ends, keys, groups.records, self._common[tree])
        # The groups of a window lie together.
        begins = np.flatnonzero(np.diff(groups.windows, prepend=-1))
        present, bounds = groups.windows[begins], [*begins.tolist(), len(groups)]
        return {
            window: GroupSelection(closed, first, last - first)
            for window, first, last in zip(present.tolist(), bounds, bounds[1:], strict=False)
        }


class ReducedRows:
    """The new rows of one stream as partials, and what is seen of them."""

    def __init__(self, weave: StreamWeave, table: pa.Table) -> None:
        everything = Partials(weave.reduction.layout, table)
        # Rows without a usable clock have no slice.
        has_clock = pc.is_valid(table[SLICE])
        usable = Partials(everything.layout, table.filter(has_clock)) if table[SLICE].null_count else everything
        self.rows = int(usable.row_counts.sum())
        self.bad = int(everything.row_counts.sum()) - self.rows
        #: The largest clock, and the smallest if EMIT EMPTY needs it.
        self.latest: Clock = pc.max(usable.table[LATEST]).as_py()
        self.least: Clock = pc.min(table[LEAST]).as_py() if weave.reduction.tells_least else None
        self.partials = Partials(usable.layout, without_clocks(usable.table))
        self.weave = weave

    def _closed(self, watermark: Clock) -> dict[Window, NDArray[np.bool_]]:
        """For each window, which of the present slices are in none of its open instances; empty if none is closed."""
        slices, _ = self.partials.distinct_slices
        # Instances that cover a clock after the watermark are open; mostly all do.
        if watermark is None or not (slices < watermark).any():
            return {}
        return {window: closed_for(window, slices, watermark) for window in self.weave.windows}

    def has_late_rows(self, watermark: Clock) -> bool:
        """Whether some row is too late for all windows. Either all rows of a slice are, or none."""
        # Nothing is late for a window that never closes.
        closed = {} if self.weave.running else self._closed(watermark)
        return bool(closed) and bool(np.logical_and.reduce(list(closed.values())).any())

    def late_rows(self, watermark: Clock) -> dict[str, int]:
        """The number of rows that each query loses because its windows have closed."""
        closed, (_, which) = self._closed(watermark), self.partials.distinct_slices
        lost = {}
        for name, each in self.weave.windowed.items():
            if closed and closed[each.window].any():
                takes = self.partials.signatures_satisfying([condition.text for condition in each.conditions])
                late = closed[each.window][which] & takes[self.partials.signature_numbers]
                lost[name] = int(self.partials.row_counts[late].sum())
        return {name: count for name, count in lost.items() if count}
