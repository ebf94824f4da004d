"""Queries to draw, and the slow ways to plan them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from hypothesis import strategies as st

from lab.weaving.costings import PRINTED, Costing, by_nanoseconds, by_operations, by_overlap, by_printed
from lab.weaving.plans import Levels, collapse, plan_cost, tree_cost
from weft.algebra import Window
from weft.kernels.kernel_cost import DUE_AWARE
from weft.optimizer.weave.costing import Acq, AcqMeasure
from weft.windows.counting import edge_rate
from weft.windows.slicing import shared_edges

COSTINGS: list[Costing] = [
    by_overlap(),
    *map(by_printed, PRINTED),
    *map(by_operations, DUE_AWARE),
    by_operations(),
    by_nanoseconds(keys={frozenset("k"): 50}),
]


#: Slides that meet often, with a few that do not.
slides = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 7, 9])


def windows(*, whole: bool = False) -> st.SearchStrategy[Window]:
    """Sliding, tumbling and hopping windows; `whole` ones have ranges of whole slides."""
    if whole:
        return st.builds(lambda slide, overlap: Window(slide * overlap, slide), slides, st.integers(1, 6))
    return st.builds(Window, range=st.integers(1, 40), slide=slides, origin=st.sampled_from([0, 0, 0, 1, 5]))


def acqs() -> st.SearchStrategy[Acq]:
    """Queries of all kinds: a few measures, groupings and predicates."""
    measure = st.sampled_from(
        [AcqMeasure("sum"), AcqMeasure("count"), AcqMeasure("max", ("slickdeque_noninv", "flatfit"))]
    )
    return st.builds(
        Acq,
        windows(),
        st.frozensets(measure, min_size=1, max_size=2),
        st.sampled_from([frozenset(), frozenset("k")]),
        st.sampled_from(["", "p"]),
    )


rates = st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(6, 5), Fraction(10), Fraction(500)])


def partitions(queries: list[Acq]) -> Iterator[list[list[Acq]]]:
    """All ways to put queries into groups."""
    if not queries:
        yield []
        return
    for partition in partitions(queries[1:]):
        yield [queries[:1], *partition]
        for at, part in enumerate(partition):
            yield [*partition[:at], [queries[0], *part], *partition[at + 1 :]]


def cheapest(queries: list[Window] | list[Acq], rate: Fraction, levels: Levels, costing: Costing) -> Fraction:
    """The cost of the best of all partitions; equal queries stay together."""
    counted = collapse(queries)
    everyone = edge_rate(shared_edges(query.window for query in counted))

    @cache
    def final(part: frozenset[Acq]) -> Fraction:
        return tree_cost({query: counted[query] for query in part}, costing).final

    return min(
        plan_cost([final(frozenset(part)) for part in parts], len(parts), rate, everyone, levels, costing)
        for parts in partitions(list(counted))
    )
