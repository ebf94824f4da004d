"""Small federations that tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, query_set

#: Two sources and two providers: s1 is near n1, s2 near n2.
TWO_PROVIDERS = NetworkGraph(
    providers=("n1", "n2"),
    capability=np.array([1.0, 1.0]),
    sources=("s1", "s2"),
    between=np.array([[0.0, 5.0], [5.0, 0.0]]),
    from_source=np.array([[2.0, 6.0], [6.0, 2.0]]),
)

#: Three substreams of s1, of which Q1 wants the first two, Q3 the first and Q4 the third; one of s2 for Q2.
FOUR_SUBSTREAMS = Substreams(np.array([0, 0, 0, 1], np.int32), np.array([5.0, 5.0, 10.0, 5.0]))
FOUR_QUERIES = query_set([[0, 1], [3], [0], [2]], load=[0.1] * 4, home=[0, 0, 1, 1], result=[1] * 4)


@st.composite
def small_cases(draw: st.DrawFn, most: int = 6) -> tuple[NetworkGraph, Substreams, QuerySet]:
    """Three providers and two sources on a line, up to five substreams, a few queries."""
    places = np.array(draw(st.lists(st.integers(0, 9), min_size=5, max_size=5)), float)
    distance = np.abs(places[:, None] - places)
    network = NetworkGraph(("a", "b", "c"), np.ones(3), ("s", "t"), distance[:3, :3], distance[3:, :3])
    count = draw(st.integers(1, 5))
    sources = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    rates = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    substreams = Substreams(np.array(sources, np.int32), np.array(rates, float))
    interest = st.sets(st.integers(0, count - 1), min_size=1).map(sorted)
    interests = draw(st.lists(interest, min_size=1, max_size=most))
    size = len(interests)
    load = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    home = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    result = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return network, substreams, query_set(interests, load, home, result)
