from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.fabric import demands_without
from lab.weaving.plans import collapse
from tests.optimizer.weave import cases
from tests.optimizer.weave.test_acq import same
from weft.optimizer.weave.costing import Acq, demands_of


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(cases.acqs(), min_size=2, max_size=10), st.data())
def test_demands_of_queries_that_leave_are_taken_away(queries: list[Acq], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(queries) - 1))
    left, right = collapse(queries[:cut]), collapse(queries[cut:])
    whole = demands_of(collapse(queries))
    for query, count in right.items():
        whole = demands_without(whole, query, count)
    assert whole.keys() == demands_of(left).keys()
    assert all(same(whole[lane], asked) for lane, asked in demands_of(left).items())
