from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.plans import collapse
from tests.optimizer.weave import cases
from weft.algebra import Window
from weft.kernels.kernel_cost import Demand, demand
from weft.optimizer.weave.costing import AGGREGATE, Acq, Lane, demands_of, edges_of_all, lanes_of, merged_demands
from weft.windows.slicing import shared_edges

ONLY = Lane(AGGREGATE, frozenset(), "")


def same(left: Demand, right: Demand) -> bool:
    """Whether two demands ask the same, whatever period they count in."""
    return (
        left.ranges.tolist() == right.ranges.tolist()
        and left.queries.tolist() == right.queries.tolist()
        and [answers * right.period for answers in left.answers.tolist()]
        == [answers * left.period for answers in right.answers.tolist()]
        and left.overlap == right.overlap
    )


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(cases.windows(), min_size=1, max_size=12))
def test_demands_are_those_of_the_windows(windows: list[Window]) -> None:
    assert same(demands_of(collapse(windows))[ONLY], demand(windows))
    assert edges_of_all(collapse(windows)) == shared_edges(windows)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(cases.acqs(), min_size=2, max_size=10), st.data())
def test_demands_of_parts_add_up(queries: list[Acq], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(queries) - 1))
    left, right = collapse(queries[:cut]), collapse(queries[cut:])
    whole = merged_demands(demands_of(left), demands_of(right))
    expected = demands_of(collapse(queries))
    assert whole.keys() == expected.keys()
    assert all(same(whole[lane], expected[lane]) for lane in whole)


def test_a_query_of_two_measures_is_in_two_lanes() -> None:
    queries = collapse([Acq(Window(4, 2), frozenset({AGGREGATE, AGGREGATE._replace(name="other")}), predicate="p")])
    (query,) = queries
    assert set(demands_of(queries)) == set(lanes_of(query))
    assert len(lanes_of(query)) == 2
